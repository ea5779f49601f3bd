"""check_component: what keeps its promises passes, and what breaks one is told in one line; on a backend of NumPy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.backend import SGD, Adam
from rheos.errors import ConfigError, SpaceError
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import CNN, GRU, LSTM, MLP, Heads, Native, Normalizer, Parameter, ResNet, Tree
from rheos.networks.weights import trainable_shapes
from rheos.spaces import Spaces
from rheos.testing import ComponentFailure, check_component
from rheos.testing.components import checks, places

spaces = gym.spaces


def numbers(*shape):
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


class NumericNetworks(Mapping):
    """Networks in NumPy, whose weights can be replaced."""

    def __init__(self, specs, weights):
        self.specs = specs
        self.load(weights)

    def load(self, weights):
        self.weights = {name: array.copy() for name, array in weights.items()}
        self._networks = NumpyNetworks(self.specs, self.weights)

    def __getitem__(self, name):
        return lambda *inputs: self._networks[name](*inputs)  # with the weights that are loaded by then

    def __iter__(self):
        return iter(self._networks)

    def __len__(self):
        return len(self._networks)


class NumericOptimizer:
    """Adam without a first moment, which is all that these tests need of optimizers."""

    def __init__(self, networks):
        names = trainable_shapes(networks.specs)
        self.networks, self.steps = networks, 0
        self.first = {name: np.zeros_like(networks.weights[name]) for name in names}
        self.second = {name: np.zeros_like(networks.weights[name]) for name in names}

    def step(self, gradients, learning_rate):
        self.steps += 1
        weights = dict(self.networks.weights)
        for name, gradient in gradients.items():
            self.first[name] = gradient
            self.second[name] = 0.999 * self.second[name] + 0.001 * np.square(gradient)
            root = np.sqrt(self.second[name] / (1 - 0.999**self.steps)) + 1e-8
            weights[name] = (weights[name] - learning_rate * gradient / root).astype(np.float32)
        self.networks.load(weights)

    def state_dict(self):
        moments = {"first_moment": self.first, "second_moment": self.second}
        arrays = {f"{kind}/{name}": array for kind, own in moments.items() for name, array in own.items()}
        return {"steps": np.array(self.steps), **arrays}

    def load_state_dict(self, state):
        self.steps = int(state["steps"])
        self.first = {name: state[f"first_moment/{name}"] for name in self.first}
        self.second = {name: state[f"second_moment/{name}"] for name in self.second}


class NumericBackend:
    """A backend whose gradients are central differences; a subclass breaks one promise."""

    name, device, xp = "numeric", "cpu", numpy_xp

    def __init__(self, mode):
        self.mode, self.num_compilations = mode, 0

    def build(self, specs, weights, *, seed=0):
        return NumericNetworks(specs, weights)

    def weights(self, networks):
        return {name: array.copy() for name, array in networks.weights.items()}

    def load(self, networks, weights, *, strict=True):
        networks.load({**networks.weights, **weights})

    def optimizer(self, spec, networks):
        return NumericOptimizer(networks)

    def update(self, loss, networks, optimizer, *, max_grad_norm):
        self.num_compilations += self.mode == "graph"

        trained = optimizer.networks

        def gradient(name, batch, coefficients):
            array, width = trained.weights[name], np.float32(1e-2)
            slopes = np.zeros_like(array)
            for index in np.ndindex(array.shape):
                sides = []
                for side in (width, -width):
                    moved = array.copy()
                    moved[index] += side
                    there = NumpyNetworks(trained.specs, {**trained.weights, name: moved})
                    sides.append(loss(numpy_xp, {**networks, **there}, batch, coefficients)[0])
                slopes[index] = (sides[0] - sides[1]) / (2 * width)
            return slopes

        def update(batch, coefficients):
            value, metrics = loss(numpy_xp, networks, batch, coefficients)
            gradients = {name: gradient(name, batch, coefficients) for name in optimizer.first}
            norm = np.sqrt(sum(np.square(array).sum() for array in gradients.values()))
            if np.isfinite(norm):
                optimizer.step(self.changed(gradients), coefficients["learning_rate"])
            return {**metrics, "loss": value, "grad_norm": norm}

        return update

    def changed(self, gradients):
        return gradients

    def infer(self, function, networks):
        self.num_compilations += self.mode == "graph"
        return lambda inputs: {k: np.asarray(v) for k, v in function(numpy_xp, networks, inputs).items()}

    def put(self, columns):
        return dict(columns)

    def get(self, arrays):
        return {name: np.asarray(array) for name, array in arrays.items()}


@pytest.fixture
def with_backend(monkeypatch):
    """Install a class of backends in place of all others."""

    def install(backend_class):
        monkeypatch.setattr(places, "make_backend", lambda config, device: backend_class(config.mode))
        monkeypatch.setattr(places, "load_registry", lambda **_: SimpleNamespace(names=lambda _: ("numeric",)))

    return install


@pytest.fixture(autouse=True)
def _sound_backend(with_backend, monkeypatch):
    with_backend(NumericBackend)
    monkeypatch.setattr(checks, "_UPDATES", 10)  # differences take their time


def squared_error(xp, networks, batch, coefficients):
    error = networks["value"](batch["x"])[..., 0] - batch["returns"]
    return coefficients["scale"] * xp.mean(xp.square(error)), {"bias": xp.mean(error)}


GIVEN = {
    "spaces": {"x": numbers(2), "returns": numbers()},
    "networks": {"value": MLP(2, 1, (2,))},
    "coefficients": {"scale": 0.5},
    "lead": (4,),
}


class Fair:
    """A distribution over two values, of which the second one is as likely as a logit says."""

    num_outputs, num_log_stds, action_shape, is_discrete = 1, 0, (), True

    def __str__(self):
        return "Fair()"

    def draw_noise(self, generator, num):
        return generator.random((num, 1), np.float32)

    def sample(self, xp, params, noise):
        return xp.astype(noise[..., 0] < xp.sigmoid(params[..., 0]), xp.int32)

    def mode(self, xp, params):
        return xp.astype(params[..., 0] > 0.0, xp.int32)

    def log_prob(self, xp, params, actions):
        return -xp.softplus(params[..., 0] * (1.0 - 2.0 * xp.astype(actions, xp.float32)))

    def entropy(self, xp, params):
        p = xp.sigmoid(params[..., 0])
        return p * xp.softplus(-params[..., 0]) + (1.0 - p) * xp.softplus(params[..., 0])

    def kl(self, xp, p, q):
        return -self.entropy(xp, p) - sum(
            xp.sigmoid(sign * p[..., 0]) * -xp.softplus(-sign * q[..., 0]) for sign in (1.0, -1.0)
        )


def towards_a_target(xp, networks, batch, coefficients):
    goal = networks["target"](batch["x"])[..., 0]
    return squared_error(xp, networks, {**batch, "returns": goal}, coefficients)


def learner(**changes):
    """What the spec of a learner has, without the package that has its class."""
    settings = {
        "networks": {"normalizer": Normalizer(3), "policy": MLP(3, 1, ())},
        "loss": policy_gradient,
        "columns": ("observations", "actions", "advantages"),
        "learning_rate": 0.1,
        "coefficients": {"entropy_coef": lambda env_steps: 0.01 + env_steps},
        "optimizer": SGD(),
        "prepare": standardized,
    }
    return SimpleNamespace(**{**settings, "targets": {}, "row_metrics": (), **changes})


def policy_gradient(xp, networks, batch, coefficients):
    params = networks["policy"](networks["normalizer"](batch["observations"]))
    entropy = xp.mean(Fair().entropy(xp, params))
    loss = -xp.mean(Fair().log_prob(xp, params, batch["actions"]) * batch["advantages"])
    return loss - coefficients["entropy_coef"] * entropy, {"entropy": entropy}


def standardized(xp, columns):
    advantages = columns["advantages"]
    spread = xp.std(advantages)
    return {**columns, "advantages": advantages / spread}, {"spread": spread}


# What keeps its promises


@pytest.mark.parametrize(
    ("spec", "space"),
    [
        (MLP(2, 2, (2,)), numbers(2)),
        (CNN((3, 3, 1), 2, ((2, 2, 1),)), numbers(3, 3, 1)),
        (ResNet((3, 3, 1), 2, (1,), 1), spaces.Box(0, 255, (3, 3, 1), np.uint8)),
        (LSTM(1, 1), numbers(1)),
        (GRU(1, 1), numbers(1)),
        (Parameter((2,)), numbers(1)),
        (Normalizer(2), numbers(2)),
        (Tree({"speed": MLP(2, 1, ()), "gear": MLP(3, 1, ())}), spaces.Dict(speed=numbers(2), gear=spaces.Discrete(3))),
        (Heads(MLP(2, 2, ()), {"policy": MLP(2, 1, ()), "value": MLP(2, 1, ())}), numbers(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_network_passes(spec, space):
    check_component(spec, space, lead=(4,))


def test_a_distribution_a_loss_and_a_learner_pass():
    check_component(Fair(), spaces.Discrete(2, start=3), lead=(4,))
    check_component(squared_error, **GIVEN)
    check_component(towards_a_target, frozen={"target": MLP(2, 1, ())}, **GIVEN)
    check_component(learner(), Spaces(numbers(3), spaces.Discrete(2)), lead=(4,))
    check_component(learner(), {"observations": numbers(3), "actions": spaces.Discrete(2)}, lead=(4,))


def test_columns_may_have_steps_and_environments_in_front():
    seen = set()

    def loss(xp, networks, batch, coefficients):
        seen.add(batch["x"].shape)
        return squared_error(xp, networks, batch, coefficients)

    check_component(loss, **{**GIVEN, "lead": (3, 2)})

    assert {(3, 2, 2)} == seen


@pytest.mark.parametrize(
    ("space", "size", "dtype"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), (4, 2), np.uint8),
        (spaces.Box(-1.0, 1.0, (2,), np.float64), (4, 2), np.float32),
        (spaces.Discrete(3, start=7), (4,), np.int32),
        (spaces.MultiDiscrete([2, 3]), (4, 2), np.int32),
        (spaces.MultiBinary(()), (4,), np.bool_),
    ],
)
def test_columns_have_the_dtype_of_their_space_and_lie_in_it(space, size, dtype):
    seen = []

    def loss(xp, networks, batch, coefficients):
        seen.append(batch["column"])
        return squared_error(xp, networks, batch, coefficients)

    check_component(loss, **{**GIVEN, "spaces": {**GIVEN["spaces"], "column": space}})

    assert (size, dtype) == (seen[0].shape, seen[0].dtype)
    assert all(space.contains(np.asarray(row, space.dtype)) for row in seen[0])


@pytest.mark.parametrize("action_space", [spaces.Discrete(4, start=1), spaces.MultiDiscrete([2, 3])])
def test_a_mask_forbids_some_actions_and_never_the_one_that_was_taken(action_space):
    size = int(getattr(action_space, "n", 0)) or 5
    seen = []

    def loss(xp, networks, batch, coefficients):
        seen.append(batch)
        return policy_gradient(xp, networks, {**batch, "actions": batch["actions"].reshape(4, -1)[:, 0]}, coefficients)

    observed = spaces.Dict(observation=numbers(3), action_mask=spaces.MultiBinary(size))
    columns = ("observations", "action_mask", "actions", "advantages")
    check_component(learner(loss=loss, columns=columns), Spaces(observed, action_space), lead=(4,))

    mask, actions = seen[0]["action_mask"], seen[0]["actions"].reshape(4, -1)
    assert not mask.all()
    offsets = np.zeros(1, int) if actions.shape[1] == 1 else np.array([0, 2])
    assert np.take_along_axis(mask, actions + offsets, axis=1).all()


def test_the_space_that_was_given_goes_on_drawing_as_before():
    space, other = numbers(2), numbers(2)
    for own in (space, other):
        own.seed(3)

    check_component(MLP(2, 1, ()), space, lead=(4,))

    np.testing.assert_array_equal(other.sample(), space.sample())


# What breaks one


class Ascending(NumericBackend):
    def changed(self, gradients):
        return {name: -gradient for name, gradient in gradients.items()}


class LeavingOut(NumericBackend):
    def optimizer(self, spec, networks):
        optimizer = super().optimizer(spec, networks)
        del optimizer.first["network/output/bias"]
        return optimizer


class MovingWhatIsFrozen(NumericBackend):
    def optimizer(self, spec, networks):
        optimizer = super().optimizer(spec, networks)
        step = optimizer.step

        def step_and_move(gradients, learning_rate):
            step(gradients, learning_rate)
            networks.load({**networks.weights, "normalizer/mean": networks.weights["normalizer/mean"] + 0.5})

        optimizer.step = step_and_move
        return optimizer


class CompilingEachTime(NumericBackend):
    def update(self, loss, networks, optimizer, *, max_grad_norm):
        update = super().update(loss, networks, optimizer, max_grad_norm=max_grad_norm)

        def compiled(batch, coefficients):
            self.num_compilations += self.mode == "graph"
            return update(batch, coefficients)

        return compiled


class CompilingEachAnswer(NumericBackend):
    def infer(self, function, networks):
        infer = super().infer(function, networks)

        def compiled(inputs):
            self.num_compilations += self.mode == "graph"
            return infer(inputs)

        return compiled


class OffInGraphs(NumericBackend):
    def infer(self, function, networks):
        off = 1e-3 if self.mode == "graph" else 0.0
        infer = super().infer(function, networks)
        return lambda inputs: {name: output + np.float32(off) for name, output in infer(inputs).items()}


class OtherGradientsInGraphs(NumericBackend):
    def changed(self, gradients):
        return {name: gradient * (1.5 if self.mode == "graph" else 1.0) for name, gradient in gradients.items()}


class ForgettingWeights(NumericBackend):
    def load(self, networks, weights, *, strict=True):
        super().load(networks, {name: array for name, array in weights.items() if not name.endswith("bias")})


class ForgettingSteps(NumericBackend):
    def optimizer(self, spec, networks):
        optimizer = super().optimizer(spec, networks)
        load = optimizer.load_state_dict
        optimizer.load_state_dict = lambda state: load({**state, "steps": np.array(0)})
        return optimizer


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (
            Ascending,
            r"numeric \(eager\): the loss on one batch: got \S+ after a step of 1e-06, expected less than \S+\.",
        ),
        (
            LeavingOut,
            r"numeric \(eager\): what is trained: got .*, expected network/output/bias, network/output/kernel\.",
        ),
        (CompilingEachTime, r"numeric \(graph\): 10 updates: got \d+ compilations, expected at most 1\."),
        (
            CompilingEachAnswer,
            r"numeric \(graph\): its outputs, asked for twice: got 2 compilations, expected at most 1\.",
        ),
        (OffInGraphs, r"numeric \(graph\): outputs: got \S+ at \[0, 0\], expected \S+, as on numpy\."),
        (
            OtherGradientsInGraphs,
            r"numeric \(graph\): the gradient of network/output/\w+: got .*, expected .*, as on numeric \(eager\)\.",
        ),
        (
            ForgettingWeights,
            r"numeric \(eager\): network/output/bias saved again: got other numbers, expected the same",
        ),
        (
            ForgettingSteps,
            r"numeric \(eager\): the optimizer's steps saved again: got other numbers, expected the same",
        ),
    ],
)
def test_a_backend_that_breaks_a_promise_is_told_in_one_line(with_backend, backend, message):
    with_backend(backend)

    with pytest.raises(ComponentFailure, match=rf"^MLP on {message}") as failure:
        check_component(MLP(2, 1, ()), numbers(2), lead=(4,))

    assert "\n" not in str(failure.value)


def test_a_frozen_weight_that_moves_is_told(with_backend):
    with_backend(MovingWhatIsFrozen)

    message = (
        r"numeric \(eager\): normalizer/mean in an update: got other numbers, expected a weight that is not trained"
    )
    with pytest.raises(ComponentFailure, match=f"^the learner of policy_gradient on {message}"):
        check_component(learner(), Spaces(numbers(3), spaces.Discrete(2)), lead=(4,))


def test_a_target_network_that_moves_is_told(with_backend):
    class Following(NumericBackend):
        def update(self, loss, networks, optimizer, *, max_grad_norm):
            update = super().update(loss, networks, optimizer, max_grad_norm=max_grad_norm)

            def moving(batch, coefficients):
                name = next(iter(self.others.weights))
                self.others.load({**self.others.weights, name: self.others.weights[name] + 1.0})
                return update(batch, coefficients)

            return moving

        def build(self, specs, weights, *, seed=0):
            built = super().build(specs, weights, seed=seed)
            self.others = built if "target" in specs else None
            return built

    with_backend(Following)

    with pytest.raises(
        ComponentFailure, match=r"target/output/kernel in an update: got other numbers, expected a weight"
    ):
        check_component(towards_a_target, frozen={"target": MLP(2, 1, ())}, modes=("eager",), **GIVEN)


def of_each_row(xp, networks, batch, coefficients):
    loss, metrics = policy_gradient(xp, networks, batch, coefficients)
    shift = networks["target"](batch["observations"])[..., 0]
    return loss + 0.0 * xp.mean(shift), {**metrics, "wrong": batch["advantages"] * batch["advantages"] + shift}


def test_a_learner_may_have_a_target_and_a_number_for_each_row():
    spec = learner(loss=of_each_row, targets={"target": MLP(3, 1, ())}, row_metrics=("wrong",))

    check_component(spec, Spaces(numbers(3), spaces.Discrete(2)), lead=(4,), modes=("eager",))


@pytest.mark.parametrize(
    ("row_metrics", "message"),
    [((), r"wrong: got the shape \(4,\), expected a scalar"), (("wrong", "entropy"), r"entropy: got the shape \(\)")],
    ids=["not said", "not given"],
)
def test_a_metric_of_the_wrong_shape_is_told(row_metrics, message):
    spec = learner(loss=of_each_row, targets={"target": MLP(3, 1, ())}, row_metrics=row_metrics)

    with pytest.raises(ComponentFailure, match=message):
        check_component(spec, Spaces(numbers(3), spaces.Discrete(2)), lead=(4,), modes=("eager",))


def ignoring(xp, networks, batch, coefficients):
    return squared_error(xp, {"value": lambda x: xp.stop_gradient(x[..., :1])}, batch, coefficients)


def not_reduced(xp, networks, batch, coefficients):
    return xp.square(networks["value"](batch["x"])[..., 0]), {}


def with_a_vector(xp, networks, batch, coefficients):
    loss, _ = squared_error(xp, networks, batch, coefficients)
    return loss, {"errors": networks["value"](batch["x"])[..., 0]}


def of_a_logarithm(xp, networks, batch, coefficients):
    with np.errstate(invalid="ignore"):
        return xp.mean(xp.log(networks["value"](batch["x"]))), {}


def in_float64(xp, networks, batch, coefficients):
    loss, _ = squared_error(xp, networks, batch, coefficients)
    return loss.astype(np.float64), {}


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            ignoring,
            r"numeric \(eager\): value/hidden_0/kernel in an update: got the numbers that it had before, expected",
        ),
        (not_reduced, r"numpy: loss: got the shape \(4,\), expected a scalar\."),
        (with_a_vector, r"numpy: errors: got the shape \(4,\), expected a scalar\."),
        (of_a_logarithm, r"numpy: loss: got nan in 1 of 1, expected finite numbers\."),
        (in_float64, r"numpy: loss: got the dtype float64, expected float32\."),
    ],
)
def test_a_loss_that_breaks_a_promise_is_told_in_one_line(loss, message):
    with pytest.raises(ComponentFailure, match=rf"^{loss.__name__} on {message}"):
        check_component(loss, **GIVEN)


class WideLogProb(Fair):
    def log_prob(self, xp, params, actions):
        return super().log_prob(xp, params, actions)[..., None]


class Third(Fair):
    def mode(self, xp, params):
        return super().mode(xp, params) + np.int32(2)


class FloatSamples(Fair):
    def sample(self, xp, params, noise):
        return xp.astype(super().sample(xp, params, noise), xp.float32)


class FarFromItself(Fair):
    def kl(self, xp, p, q):
        return super().kl(xp, p, q) + 0.5


class TwoNumbers(Fair):
    action_shape = (2,)

    def sample(self, xp, params, noise):
        return xp.broadcast_to(super().sample(xp, params, noise)[..., None], (*params.shape[:-1], 2))

    def log_prob(self, xp, params, actions):
        return super().log_prob(xp, params, actions.reshape(len(params), -1)[:, 0])


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (WideLogProb, r"log_prob: got the shape \(4, 1\), expected \(4,\): one number for each row of parameters\."),
        (Third, r"mode: got the action \d, expected one of Discrete\(2\)\."),
        (FloatSamples, r"sample: got the dtype float32, expected int32\."),
        (FarFromItself, r"kl: got 0\.5\d* of a distribution from itself, expected 0\."),
        (TwoNumbers, r"sample: got actions of shape \(2,\), expected \(\), as Discrete\(2\) is encoded\."),
    ],
)
def test_a_distribution_that_breaks_a_promise_is_told_in_one_line(distribution, message):
    with pytest.raises(ComponentFailure, match=rf"^Fair\(\) on numpy: {message}"):
        check_component(distribution(), spaces.Discrete(2), lead=(4,))


def test_what_prepares_a_batch_must_do_so_everywhere_alike():
    def off_in_graphs(xp, columns):
        off_in_graphs.calls += 1
        shift = np.float32(0.1 if off_in_graphs.calls > 4 else 0.0)  # after NumPy's batch, and the three of eager mode
        return {**columns, "advantages": columns["advantages"] + shift}, {}

    off_in_graphs.calls = 0

    with pytest.raises(ComponentFailure, match=r"numeric \(graph\): advantages, prepared: got .* as on numpy\.$"):
        check_component(learner(prepare=off_in_graphs), Spaces(numbers(3), spaces.Discrete(2)), lead=(4,))


# What is no component


@pytest.mark.parametrize(
    ("component", "given", "message"),
    [
        (MLP(2, 1), {"x": numbers(2)}, r"got \{.*\}, expected the one space of a MLP\."),
        (squared_error, numbers(2), r"got Box\(.*\), expected a space for each column of a batch, or rheos\.Spaces\."),
        (squared_error, {"x": numbers(2)}, r"a loss is checked with its networks, give them as `networks`\."),
        (7, {"x": numbers(2)}, r"got 7, expected a network spec, distribution, loss or learner spec\."),
    ],
)
def test_what_is_no_component_is_refused(component, given, message):
    with pytest.raises(TypeError, match=f"^check_component: {message}$"):
        check_component(component, given)


def test_a_space_that_is_no_column_is_refused_by_name():
    with pytest.raises(SpaceError, match=r"^x: got Tuple\(.*\), expected Box, Discrete, MultiDiscrete or MultiBinary"):
        check_component(squared_error, **{**GIVEN, "spaces": {"x": spaces.Tuple([numbers(2)])}})


def test_a_network_of_the_users_own_that_no_backend_runs_is_an_error(with_backend):
    class Refusing(NumericBackend):
        def build(self, specs, weights, *, seed=0):
            raise ConfigError("numeric runs no module")

    with_backend(Refusing)

    with pytest.raises(ConfigError, match="numeric runs no module"):
        check_component(Native(object), numbers(2))


def test_without_any_backend_nothing_is_passed_over_in_silence(monkeypatch):
    monkeypatch.setattr(places, "load_registry", lambda **_: SimpleNamespace(names=lambda _: ()))

    check_component(MLP(2, 1, ()), numbers(2), backends=())  # NumPy alone was asked for
    with pytest.raises(
        ConfigError, match=r"^No backend is installed: pip install rheos-backend-torch, or give backends"
    ):
        check_component(MLP(2, 1, ()), numbers(2))


def test_an_error_of_the_component_itself_is_noted_with_where_it_happened():
    def failing(xp, networks, batch, coefficients):
        return batch["nothing"]

    with pytest.raises(KeyError) as raised:
        check_component(failing, **GIVEN)

    assert re.fullmatch(r"check_component: .*failing on numpy", raised.value.__notes__[-1])


def test_the_optimizer_is_the_learners_own(with_backend):
    made = []

    class Noting(NumericBackend):
        def optimizer(self, spec, networks):
            made.append(spec)
            return super().optimizer(spec, networks)

    with_backend(Noting)

    check_component(learner(), Spaces(numbers(3), spaces.Discrete(2)), lead=(4,), modes=("eager",))

    assert [Adam(beta_1=0.0), SGD(), SGD()] == made
