"""A user's own torch module as a network: its weights, what is not trained, its start, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rheos.backend import Adam
from rheos.errors import ConfigError, ShapeError
from rheos.networks.specs import MLP, Heads, Native, Tree
from rheos_torch.backend import TorchBackend
from rheos_torch.networks import TorchNetworks


class Own(nn.Module):
    """Dropout, normalization of batches, a frozen layer, tied weights, a buffer that is replaced and one not saved."""

    mean: Tensor
    scratch: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 4, bias=False)
        self.again = nn.Linear(4, 4, bias=False)
        self.again.weight = self.head.weight
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(self.body(x))
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        y: Tensor = self.again(torch.tanh(self.head(x - self.mean)))
        return y


TRAINED = {
    "own/body/0/weight": (4, 3),
    "own/body/0/bias": (4,),
    "own/body/1/weight": (4,),
    "own/body/1/bias": (4,),
    "own/head/weight": (4, 4),
}
FIXED = {
    "own/frozen/weight": (4, 4),
    "own/frozen/bias": (4,),
    "own/mean": (4,),
    "own/body/1/running_mean": (4,),
    "own/body/1/running_var": (4,),
}
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))


def built(make: Any = Own, weights: Any = None, **options: Any) -> TorchNetworks:
    return TorchNetworks({"own": Native(make)}, weights or {}, "cpu", **options)


def test_its_weights_have_its_own_names_and_only_what_requires_a_gradient_is_trained():
    networks = built()

    assert TRAINED == networks.shapes
    assert {**TRAINED, **FIXED} == {name: array.shape for name, array in networks.weights().items()}
    assert {name: tuple(tensor.shape) for name, tensor in networks.fixed.items()} == FIXED
    assert isinstance(networks["own"], Own)


def test_parameters_are_views_of_the_flat_weights_and_gradients():
    networks = built()
    own = networks["own"]
    assert isinstance(own, Own)

    own(X).square().sum().backward()
    networks.flat.add_(networks.gradient, alpha=-0.1)

    start = built().weights()
    moved = {name for name, array in networks.weights().items() if not np.array_equal(start[name], array)}
    assert set(TRAINED) == moved
    assert own.again.weight is own.head.weight
    np.testing.assert_array_equal(networks.weights()["own/head/weight"], own.head.weight.detach().numpy())


def test_a_seed_gives_the_same_start_and_another_one_another():
    first, again, other = built(seed=1).weights(), built(seed=1).weights(), built(seed=2).weights()

    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["own/head/weight"], other["own/head/weight"])


def test_two_of_one_kind_start_apart():
    networks = TorchNetworks({"a": Native(Own), "b": Native(Own)}, {}, "cpu")

    weights = networks.weights()
    assert not np.array_equal(weights["a/head/weight"], weights["b/head/weight"])


def test_the_global_generator_is_left_as_it_was():
    torch.manual_seed(7)
    expected = torch.rand(3)

    torch.manual_seed(7)
    built(seed=1)

    assert torch.equal(expected, torch.rand(3))


def test_given_weights_are_taken_in_place_of_its_own_and_come_back_to_the_bit():
    generator = np.random.default_rng(0)
    given = {name: generator.random(shape, np.float32) for name, shape in {**TRAINED, **FIXED}.items()}

    networks = built(weights=given)

    back = networks.weights()
    assert list(back) == list(built().weights())
    for name, array in given.items():
        np.testing.assert_array_equal(array, back[name], err_msg=name)
    with torch.no_grad():
        assert torch.equal(networks["own"](X), built(weights=back)["own"](X))


def test_weights_are_copies_and_loading_some_leaves_the_others():
    networks = built()
    before = networks.weights()
    given = {"own/mean": np.ones(4, np.float32), "own/body/0/bias": np.ones(4, np.float32)}

    networks.load(given, strict=False)

    for name, array in networks.weights().items():
        np.testing.assert_array_equal({**before, **given}[name], array, err_msg=name)


def test_a_buffer_that_the_module_replaces_travels_as_it_is_now_and_can_be_loaded():
    networks = built()

    with networks.training(), torch.no_grad():
        networks["own"](X)
    sent = networks.weights()
    networks.load({**sent, "own/mean": np.full(4, 3.0, np.float32)}, strict=True)

    assert sent["own/mean"].all()
    assert sent["own/body/1/running_mean"].all()
    np.testing.assert_array_equal(np.full(4, 3.0), networks["own"].get_buffer("mean").numpy())


def test_an_update_moves_what_is_trained_and_the_statistics_and_nothing_that_is_frozen():
    backend = TorchBackend()
    networks = backend.build({"own": Native(Own)}, {})
    before = backend.weights(networks)

    def loss(xp: Any, networks: Any, batch: Any, _coefficients: Any) -> tuple[Any, dict[str, Any]]:
        return xp.mean(xp.square(networks["own"](batch["x"]))), {}

    update = backend.update(loss, networks, backend.optimizer(Adam(), networks), max_grad_norm=None)
    update({"x": X}, {"learning_rate": 1e-2})

    moved = {name for name, array in backend.weights(networks).items() if not np.array_equal(before[name], array)}
    assert {*TRAINED, *FIXED} - {"own/frozen/weight", "own/frozen/bias"} == moved
    assert not networks["own"].training


def test_it_acts_in_evaluation_mode_and_learns_in_training_mode():
    networks = built()
    own = networks["own"]

    with torch.no_grad():
        assert torch.equal(own(X), own(X))  # no dropout
        with networks.training():
            assert own.training
            assert not torch.equal(own(X), own(X))
    assert not own.training


def test_an_error_while_it_learns_leaves_it_in_evaluation_mode():
    networks = built()

    with pytest.raises(ZeroDivisionError), networks.training():
        raise ZeroDivisionError

    assert not networks["own"].training


def test_it_may_be_a_part_of_other_networks_in_any_depth():
    specs = {"net": Heads(Tree({"x": Native(Own), "y.z": MLP(2, 2, ())}), {"q": Native(lambda: nn.Linear(6, 1))})}
    weights = {
        "net/trunk/y.z/output/kernel": np.ones((2, 2), np.float32),
        "net/trunk/y.z/output/bias": np.zeros(2, np.float32),
    }

    networks = TorchNetworks(specs, weights, "cpu")

    with torch.no_grad():
        assert networks["net"]({"x": X, "y.z": torch.ones(8, 2)})["q"].shape == (8, 1)
    names = list(networks.weights())
    assert names[0] == "net/trunk/x/body/0/weight"
    assert names[-2:] == ["net/q/weight", "net/q/bias"]
    assert set(weights) < set(names)
    with networks.training():
        modes = {name: module.training for name, module in networks["net"].named_modules() if isinstance(module, Own)}
        assert list(modes.values()) == [True]


def test_the_same_weights_in_another_place_give_the_same_through_functional_call():
    specs = {"net": Heads(Native(Own), {"q": MLP(4, 1, ())})}
    weights = {"net/q/output/kernel": np.ones((4, 1), np.float32), "net/q/output/bias": np.zeros(1, np.float32)}
    networks = TorchNetworks(specs, weights, "cpu")

    places = networks.places("net")
    moved = {name: 2 * networks.flat[place].view(shape) for name, (place, shape) in places.items()}
    found = torch.func.functional_call(networks["net"], moved, (X,))["q"]
    networks.flat.mul_(2.0)

    assert len(places) == len(networks.shapes)
    assert torch.equal(networks["net"](X)["q"], found)


def test_a_module_without_anything_to_train_is_a_network_too():
    networks = built(lambda: nn.Linear(3, 2).requires_grad_(False))

    assert networks.shapes == {}
    assert list(networks.weights()) == ["own/weight", "own/bias"]
    assert built(nn.Tanh).weights() == {}


class Doubles(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2, dtype=torch.float64)


class DoubleStatistics(nn.BatchNorm1d):
    def __init__(self) -> None:
        super().__init__(2)
        self.running_mean = torch.zeros(2, dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [nn.Linear(2, 2)], r"^network `own`: make\(\) gave list, expected a torch.nn.Module\."),
        (lambda: None, r"make\(\) gave NoneType"),
        (Doubles, r"^network `own`: `weight` is torch.float64, expected torch.float32"),
        (DoubleStatistics, r"^network `own`: `running_mean` is torch.float64, expected torch.float32"),
        (lambda: nn.LazyLinear(2), r"^network `own`: `weight` has no shape yet: let make\(\) run a lazy module once"),
    ],
)
def test_what_is_no_module_of_float32_weights_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        built(make)


def test_a_module_that_is_in_use_already_is_refused_and_stays_as_it_was():
    module = nn.Linear(2, 2)
    networks = built(lambda: module)
    before = networks.weights()

    with pytest.raises(
        ConfigError, match=r"^`own/weight` is in use by other networks already: let make\(\) make a new"
    ):
        built(lambda: module, seed=5)

    networks.flat.add_(1.0)
    np.testing.assert_array_equal(before["own/weight"] + 1.0, module.weight.detach().numpy())


def test_a_layer_that_two_networks_share_is_refused():
    shared = nn.Linear(2, 2)
    specs = {name: Native(lambda: nn.Sequential(shared, nn.Linear(2, 1))) for name in ("policy", "value")}

    with pytest.raises(ConfigError, match=r"^`value/0/weight` is in use by other networks"):
        TorchNetworks(specs, {}, "cpu")


def test_some_of_its_weights_are_too_few():
    with pytest.raises(ShapeError, match="`own/body/0/bias` is missing"):
        built(weights={"own/body/0/weight": np.zeros((4, 3), np.float32)})
