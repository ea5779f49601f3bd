"""Problems: a component with all that is needed to run it and to train it, whatever kind of component it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.backend import Adam
from rheos.networks.specs import GRU, LSTM, MLP, Native, NetworkSpec, Parameter
from rheos.networks.weights import leaf_specs
from rheos.spaces import ActionAdapter, Spaces
from rheos.testing.components.columns import Columns, draw_columns, draw_inputs, names_of_inputs

if TYPE_CHECKING:
    from rheos.arrays.namespace import Array, ArrayNamespace
    from rheos.backend import Coefficients, Function, Loss, Networks, OptimizerSpec

__all__ = ["LearnerLike", "Prepare", "Problem", "problem_of"]

Prepare = Callable[["ArrayNamespace", Mapping[str, "Array"]], tuple[Mapping[str, "Array"], Mapping[str, "Array"]]]
"""What a learner does to a batch first: `(xp, columns) -> (columns, scalar metrics)`."""

Complaints = Iterator[tuple[str, str, str]]
"""Of outputs: what, got, expected."""

ColumnSpaces = Spaces | Mapping[str, spaces.Space[Any]]


class LearnerLike(Protocol):
    """What is asked of the spec of a learner, such as `rheos_ops.learners.LearnerSpec`."""

    @property
    def networks(self) -> Mapping[str, NetworkSpec]:
        """By name."""
        ...

    @property
    def loss(self) -> Loss:
        """What is learned by."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """Those of a batch that the loss and `prepare` read."""
        ...

    @property
    def learning_rate(self) -> float | Callable[[int], float]:
        """A number, or a function of the environment steps."""
        ...

    @property
    def coefficients(self) -> Mapping[str, float | Callable[[int], float]]:
        """What the loss gets beside the learning rate."""
        ...

    @property
    def optimizer(self) -> OptimizerSpec:
        """What steps are taken by."""
        ...

    @property
    def prepare(self) -> Prepare | None:
        """What is done to a batch first."""
        ...


class DistributionLike(Protocol):
    """What is asked of a distribution; `rheos_ops.distributions.Distribution` says what its parts mean."""

    num_outputs: int
    num_log_stds: int
    action_shape: tuple[int, ...]
    is_discrete: bool
    draw_noise: Callable[[np.random.Generator, int], npt.NDArray[np.float32]]
    sample: Callable[..., Array]
    mode: Callable[..., Array]
    log_prob: Callable[..., Array]
    entropy: Callable[..., Array]
    kl: Callable[..., Array]


@dataclass(frozen=True)
class Problem:
    """A component with all that is needed to run it and to train it."""

    what: str
    """How messages name it."""
    networks: Mapping[str, NetworkSpec]
    draw: Callable[[np.random.Generator], Columns]
    function: Function
    """What the component gives: its outputs by name."""
    loss: Loss
    complaints: Callable[[Mapping[str, npt.NDArray[Any]], Columns], Complaints]
    """What is wrong with outputs, known from the columns alone."""
    coefficients: Mapping[str, float] = field(default_factory=dict)
    frozen: Mapping[str, NetworkSpec] = field(default_factory=dict)
    """Networks that are called, too, and not trained."""
    optimizer: OptimizerSpec = field(default_factory=Adam)
    prepare: Prepare | None = None
    maps_rows: bool = False
    """Whether the function maps each row of the columns by itself."""

    @property
    def has_native(self) -> bool:
        """Whether a network is the user's own, so that one framework alone runs it."""
        return any(isinstance(leaf, Native) for leaf in leaf_specs({**self.networks, **self.frozen}).values())


def problem_of(
    component: Any,
    given: spaces.Space[Any] | ColumnSpaces,
    networks: Mapping[str, NetworkSpec] | None,
    frozen: Mapping[str, NetworkSpec],
    coefficients: Mapping[str, float],
    lead: tuple[int, ...],
) -> Problem:
    """Return what there is to check of a component; see `check_component` for the arguments.

    Raises:
        TypeError: if it is no component, or the spaces or networks are not those of such a component.
    """
    if isinstance(component, get_args(NetworkSpec)):
        return _network_problem(component, _one_space(component, given), lead)
    if all(hasattr(component, name) for name in ("sample", "log_prob", "draw_noise")):
        return _distribution_problem(component, _one_space(component, given), lead)
    if isinstance(given, spaces.Dict):
        given = given.spaces
    if isinstance(given, spaces.Space):
        raise TypeError(f"check_component: got {given}, expected a space for each column of a batch, or rheos.Spaces.")
    if all(hasattr(component, name) for name in ("networks", "loss", "columns")):
        return _learner_problem(component, given, lead)
    if not callable(component):
        raise TypeError(
            f"check_component: got {component!r}, expected a network spec, distribution, loss or learner spec."
        )
    if networks is None:
        raise TypeError("check_component: a loss is checked with its networks, give them as `networks`.")
    draw = partial(draw_columns, given, (), lead=lead)
    return _loss_problem(_name_of(component), cast("Loss", component), networks, coefficients, draw, frozen=frozen)


def _one_space(component: object, given: Any) -> spaces.Space[Any]:
    if isinstance(given, spaces.Space):
        return given
    raise TypeError(f"check_component: got {given!r}, expected the one space of a {type(component).__name__}.")


def _name_of(component: Any) -> str:
    return getattr(component, "__name__", type(component).__name__)


# Networks


def _network_problem(spec: NetworkSpec, space: spaces.Space[Any], lead: tuple[int, ...]) -> Problem:
    is_recurrent = isinstance(spec, LSTM | GRU)
    names = names_of_inputs(space, "inputs")
    if is_recurrent and len(lead) == 1:
        lead = (5, *lead)

    def draw(generator: np.random.Generator) -> Columns:
        columns = draw_inputs(space, generator, lead, "inputs")
        if isinstance(spec, LSTM | GRU):
            columns["state"] = generator.standard_normal((lead[1], spec.state_size), np.float32)
            columns["is_first"] = generator.random(lead) < 0.2
        return columns

    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        memory = (batch["state"], batch["is_first"]) if is_recurrent else ()
        return _flat("outputs", networks["network"](_tree(names, batch), *memory))

    def loss(
        xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        terms = [xp.mean(xp.square(output - 1.0)) for output in function(xp, networks, batch).values()]
        return sum(terms[1:], terms[0]), {}

    def complaints(outputs: Mapping[str, npt.NDArray[Any]], columns: Columns) -> Complaints:
        if isinstance(spec, Parameter):
            lead_of = dict.fromkeys(outputs, spec.shape)
        else:
            lead_of = {name: lead[1:] if is_recurrent and name == "outputs/1" else lead for name in outputs}
        for name, output in outputs.items():
            axes = lead_of[name]
            if output.shape[: len(axes)] != axes:
                yield name, f"the shape {output.shape}", f"({', '.join(map(str, axes))}, ...), the axes of the inputs"
            if output.dtype != np.float32:
                yield name, f"the dtype {output.dtype}", "float32"

    return Problem(
        what=type(spec).__name__,
        networks={"network": spec},
        draw=draw,
        function=function,
        loss=loss,
        complaints=complaints,
        maps_rows=not (is_recurrent or isinstance(spec, Parameter)),
    )


def _tree(names: Any, batch: Mapping[str, Array]) -> Any:
    if isinstance(names, dict):
        return {key: _tree(part, batch) for key, part in names.items()}
    return batch[names]


def _flat(name: str, outputs: Any) -> dict[str, Array]:
    """Give each array of what a network returns a name of its own."""
    if isinstance(outputs, Mapping):
        parts = outputs.items()
    elif isinstance(outputs, tuple | list):
        parts = dict(enumerate(outputs)).items()
    else:
        return {name: outputs}
    return {key: array for part, value in parts for key, array in _flat(f"{name}/{part}", value).items()}


# Distributions


def _distribution_problem(distribution: Any, space: spaces.Space[Any], lead: tuple[int, ...]) -> Problem:
    adapter = ActionAdapter(space)
    family: DistributionLike = distribution
    num_params = family.num_outputs + family.num_log_stds
    rows = int(np.prod(lead))

    def draw(generator: np.random.Generator) -> Columns:
        params = generator.standard_normal((2, rows, num_params), np.float32)
        params[..., family.num_outputs :] *= 0.5
        columns = {
            "features": generator.standard_normal((rows, 4), np.float32),
            "p": params[0],
            "q": params[1],
            "noise": family.draw_noise(generator, rows),
            **draw_columns(Spaces(spaces.Discrete(2), space), (), generator, (rows,)),
        }
        del columns["observations"]
        # Drawn once: at the bounds of an action space, a sample that differs by a bit has quite another density.
        columns["sampled"] = np.asarray(family.sample(numpy_xp, params[0], columns["noise"]))
        return {name: column.reshape(*lead, *column.shape[1:]) for name, column in columns.items()}

    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        p, q = batch["p"], batch["q"]
        return {
            "sample": family.sample(xp, p, batch["noise"]),
            "mode": family.mode(xp, p),
            "log_prob": family.log_prob(xp, p, batch["actions"]),
            "log_prob of the sample": family.log_prob(xp, p, batch["sampled"]),
            "entropy": family.entropy(xp, p),
            "kl": family.kl(xp, p, q),
            "kl of p and p": family.kl(xp, p, p),
        }

    def loss(
        xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
    ) -> tuple[Array, dict[str, Array]]:
        params = networks["params"](batch["features"])
        terms = {
            "log_prob": -xp.mean(family.log_prob(xp, params, batch["actions"])),
            "entropy": -xp.mean(family.entropy(xp, params)),
            "kl": xp.mean(family.kl(xp, params, batch["q"])),
        }
        if not family.is_discrete:
            terms["sample"] = xp.mean(family.sample(xp, params, batch["noise"]))
        return sum(terms.values()), terms

    def complaints(outputs: Mapping[str, npt.NDArray[Any]], columns: Columns) -> Complaints:
        dtype = np.dtype(np.int32 if family.is_discrete else np.float32)
        for name in ("sample", "mode"):
            shape = (*lead, *family.action_shape)
            if outputs[name].shape != shape:
                yield (
                    name,
                    f"the shape {outputs[name].shape}",
                    f"{shape}: the axes of the parameters, and `action_shape`",
                )
            elif outputs[name].shape[len(lead) :] != adapter.shape:
                yield name, f"actions of shape {family.action_shape}", f"{adapter.shape}, as {space} is encoded"
            elif outputs[name].dtype != dtype:
                yield name, f"the dtype {outputs[name].dtype}", f"{dtype}"
            else:
                flat = outputs[name].reshape(rows, *adapter.shape)
                yield from (
                    (name, f"the action {action}", f"one of {space}")
                    for action in _singles(adapter.decode(flat), rows)
                    if not space.contains(action)
                )
        for name in ("log_prob", "log_prob of the sample", "entropy", "kl", "kl of p and p"):
            if outputs[name].shape != lead:
                yield name, f"the shape {outputs[name].shape}", f"{lead}: one number for each row of parameters"
        worst = float(np.abs(outputs["kl of p and p"]).max())
        if not worst <= _ROUNDING_OF_A_SUM * num_params:
            yield "kl", f"{worst:g} of a distribution from itself", "0"
        least = float(outputs["kl"].min())
        if not least >= -_ROUNDING_OF_A_SUM * num_params:
            yield "kl", f"{least:g}", "no divergence below 0"

    return Problem(
        what=str(distribution),
        networks={"params": MLP(4, num_params, ())},
        draw=draw,
        function=function,
        loss=loss,
        complaints=complaints,
        maps_rows=True,
    )


_ROUNDING_OF_A_SUM = 1e-5
"""Of terms of about 1, for each of them."""


def _singles(batch: Any, rows: int) -> Iterator[Any]:
    """Yield the rows of a decoded batch of actions, each as a space has it."""
    for row in range(rows):
        yield _row(batch, row)


def _row(batch: Any, row: int) -> Any:
    if isinstance(batch, dict):
        return {key: _row(part, row) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_row(part, row) for part in batch)
    return batch[row]


# Losses and learners


def _loss_problem(
    what: str,
    loss: Loss,
    networks: Mapping[str, NetworkSpec],
    coefficients: Mapping[str, float],
    draw: Callable[[np.random.Generator], Columns],
    **settings: Any,
) -> Problem:
    def function(xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array]) -> dict[str, Array]:
        value, metrics = loss(xp, networks, batch, {**coefficients, "learning_rate": 0.0})
        return {"loss": value, **metrics}

    def complaints(outputs: Mapping[str, npt.NDArray[Any]], columns: Columns) -> Complaints:
        for name, output in outputs.items():
            if output.shape != ():
                yield name, f"the shape {output.shape}", "a scalar"
            elif output.dtype != np.float32:
                yield name, f"the dtype {output.dtype}", "float32"

    return Problem(what, networks, draw, function, loss, complaints, coefficients=coefficients, **settings)


def _learner_problem(spec: LearnerLike, given: ColumnSpaces, lead: tuple[int, ...]) -> Problem:
    known = {"actions"} if isinstance(given, Spaces) else set(given)
    if isinstance(given, Spaces):
        from rheos.spaces import ObservationAdapter

        known |= set(ObservationAdapter(given.observation, given.action).columns)
    others = [name for name in spec.columns if name not in known]
    numbers = {name: value(0) if callable(value) else value for name, value in spec.coefficients.items()}

    def draw(generator: np.random.Generator) -> Columns:
        columns = draw_columns(given, others, generator, lead)
        return {name: columns[name] for name in spec.columns}

    what = f"the learner of {_name_of(spec.loss)}"
    settings = {"optimizer": spec.optimizer, "prepare": spec.prepare}
    return _loss_problem(what, spec.loss, spec.networks, numbers, draw, **settings)
