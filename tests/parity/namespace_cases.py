"""A case for every function of `ArrayNamespace`; the name of a case begins with that of its function."""

from __future__ import annotations

import math

import numpy as np

from parity.cases import (
    ANYTHING,
    FRACTIONS,
    POSITIVE,
    QUARTERS,
    SMALL,
    WIDE,
    Case,
    flags,
    float32,
    floats,
    indices,
    largest,
    of_shape,
)

X = of_shape("T", "B")
CUBE = of_shape("T", "B", 3)
ROWS = of_shape("B", 4)
APART = of_shape("T", 4, numbers=QUARTERS, unique=True)
LOGITS = of_shape("T", "B", 3)
QUARTER = of_shape("T", "B", numbers=QUARTERS)
EIGHTH = of_shape("T", "B", numbers=QUARTERS.map(lambda number: number + 0.125))
"""Never equal to one of the others: how equal ones share their gradient is open."""


def elementwise(name, numbers=WIDE, **settings):
    return Case(lambda xp, x: getattr(xp, name)(x), (of_shape("T", "B", numbers=numbers),), **settings)


def over_axes(name, spec=CUBE, **settings):
    """Over all axes and one that is kept, and by another case over several and the first one."""
    return {
        name: Case(
            lambda xp, x: (getattr(xp, name)(x), getattr(xp, name)(x, axis=-1, keepdims=True)),
            (spec,),
            scale=largest,
            **settings,
        ),
        f"{name}, other axes": Case(
            lambda xp, x: (getattr(xp, name)(x, axis=(0, 2)), getattr(xp, name)(x, axis=0)),
            (spec,),
            scale=largest,
            **settings,
        ),
    }


def along_an_axis(name, spec, **settings):
    """Along the axis that is meant without another one being named, and by another case along the other one."""
    other = 0 if name in ("logsumexp", "softmax", "log_softmax") else -1
    return {
        name: Case(lambda xp, *x: getattr(xp, name)(*x), spec, **settings),
        f"{name}, another axis": Case(lambda xp, *x: getattr(xp, name)(*x, axis=other), spec, **settings),
    }


def scanned(xp, h, c, x, forgets):
    """A recurrence that no doubling solves, with two states, one of which is forgotten now and then."""

    def step(state, inputs):
        (h, c), (x_t, forgets_t) = state, inputs
        c = xp.where(forgets_t, 0.0, c) + x_t
        h = xp.tanh(h + c)
        return (h, c), h * x_t

    (h, c), outputs = xp.scan(step, (h, c), (x, forgets))
    return h, c, outputs


def made(xp):
    return (
        xp.asarray([1.5, -2.0]),
        xp.asarray([[1, 2], [3, 4]]),
        xp.asarray([True, False]),
        xp.asarray(np.array([1.0, 1e-3])),
        xp.asarray([1, 0], xp.bool),
        xp.asarray(3.7, xp.int32),
    )


ELEMENTWISE = {
    "abs": elementwise("abs"),
    "exp": elementwise("exp", floats(-1e4, 40.0)),
    "log": elementwise("log", POSITIVE),
    "log, huge and tiny": Case(
        lambda xp, x: xp.log(x), held=(of_shape("T", "B", numbers=float32(1e-37, 1e-20, 1e20, 3e38)),)
    ),
    "log1p": elementwise("log1p", floats(-0.875, 1e4)),
    "log1p, tiny": elementwise("log1p", float32(1e-30, -1e-30, 1e-8, -1e-8)),
    "sqrt": elementwise("sqrt", POSITIVE),
    "square": elementwise("square"),
    "sign": elementwise("sign", differences=False),
    "tanh": elementwise("tanh"),
    "sigmoid": elementwise("sigmoid"),
    "softplus": elementwise("softplus"),
    "relu": elementwise("relu"),
    "isfinite": Case(lambda xp, x: xp.isfinite(x), held=(of_shape("T", "B", numbers=ANYTHING),)),
    "where": Case(lambda xp, x, y, c: xp.where(c, x, y), (X, X), (flags("T", "B"),)),
    "where, numbers": Case(lambda xp, x, c: (xp.where(c, x, -1e9), xp.where(c, 0.0, x)), (X,), (flags("T", "B"),)),
    "where, rows": Case(lambda xp, x, y, c: xp.where(c, x, y), (X, of_shape("B")), (flags("T", 1),)),
    "minimum": Case(lambda xp, x, y: xp.minimum(x, y), (QUARTER, EIGHTH)),
    "maximum": Case(lambda xp, x, y: xp.maximum(x, y), (QUARTER, EIGHTH)),
    "clip": Case(lambda xp, x: xp.clip(x, -0.5, 2.0), (X,)),
    "clip, one side": Case(lambda xp, x: (xp.clip(x, 0.25), xp.clip(x, None, 1.0)), (X,)),
    "stop_gradient": Case(
        lambda xp, x: xp.stop_gradient(x) * x, (of_shape("T", "B", numbers=SMALL),), differences=False
    ),
}

OVER_AXES = {
    **over_axes("sum"),
    "sum, integers": Case(lambda xp, x: (xp.sum(x), xp.sum(x, axis=0)), held=(indices(1_000, "T", "B", low=-1_000),)),
    **over_axes("mean"),
    **over_axes("std", of_shape("T", "B", 3, numbers=QUARTERS, unique=True)),
    "std, one element": Case(lambda xp, x: xp.std(x, axis=-1), (of_shape("T", 1, numbers=QUARTERS),)),
    **over_axes("min", of_shape("T", "B", 3, numbers=QUARTERS, unique=True)),
    **over_axes("max", of_shape("T", "B", 3, numbers=QUARTERS, unique=True)),
    "argmax": Case(lambda xp, x: (xp.argmax(x), xp.argmax(x, axis=0)), held=(APART,)),
    "all": Case(lambda xp, x: (xp.all(x), xp.all(x, axis=0), xp.all(x, axis=-1)), held=(flags("T", "B"),)),
    "any": Case(lambda xp, x: (xp.any(x), xp.any(x, axis=0), xp.any(x, axis=-1)), held=(flags("T", "B"),)),
    **along_an_axis("cumulative_sum", (CUBE,), scale=lambda x: 2.0 * largest(x)),
    "cumulative_sum, integers": Case(lambda xp, x: xp.cumulative_sum(x), held=(indices(9, "T", "B", low=-9),)),
    **along_an_axis("logsumexp", (LOGITS,), scale=largest),
    **along_an_axis("softmax", (LOGITS,), scale=largest),
    **along_an_axis("log_softmax", (LOGITS,), scale=largest),
    **along_an_axis(
        "linear_recurrence",
        (of_shape("T", "B", numbers=FRACTIONS), of_shape("T", "B", numbers=QUARTERS)),
        scale=largest,
    ),
    "linear_recurrence, reverse": Case(
        lambda xp, a, b: xp.linear_recurrence(a, b, reverse=True),
        (of_shape("T", "B", numbers=FRACTIONS), of_shape("T", "B", numbers=QUARTERS)),
        scale=largest,
    ),
    "scan": Case(
        scanned,
        (*(of_shape("B", numbers=SMALL),) * 2, of_shape("T", "B", numbers=SMALL)),
        (flags("T", "B"),),
    ),
}

MAKING_AND_PLACING = {
    "asarray": Case(made),
    "astype": Case(
        lambda xp, x, c: (
            xp.astype(x, xp.int32),
            xp.astype(c, xp.float32),
            xp.astype(c, xp.int32),
            xp.astype(x, xp.bool),
        ),
        held=(of_shape("T", "B", numbers=floats(-1e4, 1e4)), flags("T", "B")),
    ),
    "astype, of smooth numbers": Case(lambda xp, x: xp.astype(x, xp.float32), (X,), differences=False),
    "zeros": Case(lambda xp: (xp.zeros((2, 3)), xp.zeros((), xp.int32), xp.zeros((1,), xp.bool))),
    "ones": Case(lambda xp: (xp.ones((2, 3)), xp.ones((), xp.int32), xp.ones((1,), xp.bool))),
    "zeros_like": Case(lambda xp, x, i: (xp.zeros_like(x), xp.zeros_like(i)), held=(X, indices(3, "B"))),
    "ones_like": Case(lambda xp, x, c: (xp.ones_like(x), xp.ones_like(c)), held=(X, flags("B"))),
    "one_hot": Case(lambda xp, i: xp.one_hot(i, 3), held=(indices(5, "T", "B", low=-2),)),
    "matmul": Case(
        lambda xp, x, y, z: (xp.matmul(x, y), xp.matmul(z, y), xp.matmul(z, xp.stack([y] * z.shape[0]))),
        (ROWS, of_shape(4, 3, numbers=SMALL), of_shape("T", "B", 4, numbers=SMALL)),
        scale=lambda x, y, z: largest(x) * largest(y),
    ),
    "concat": Case(lambda xp, x, y: (xp.concat([x, y]), xp.concat((x, x, y), axis=-1)), (X, X)),
    "stack": Case(lambda xp, x, y: (xp.stack([x, y]), xp.stack((x, y), axis=-1)), (X, X)),
    "reshape": Case(
        lambda xp, x: (xp.reshape(x, (-1,)), xp.reshape(x, (3, -1)), xp.reshape(x, (1, *x.shape))), (CUBE,)
    ),
    "expand_dims": Case(lambda xp, x: (xp.expand_dims(x), xp.expand_dims(x, axis=-1), xp.expand_dims(x, axis=1)), (X,)),
    "squeeze": Case(lambda xp, x: (xp.squeeze(x, axis=1), xp.squeeze(x, axis=-2)), (of_shape("T", 1, 3),)),
    "permute_dims": Case(lambda xp, x: xp.permute_dims(x, (2, 0, 1)), (CUBE,)),
    "broadcast_to": Case(lambda xp, x: xp.broadcast_to(x, (2, 5, *x.shape[1:])), (of_shape(1, "B"),)),
    "flip": Case(lambda xp, x: (xp.flip(x, axis=0), xp.flip(x, axis=-1)), (CUBE,)),
    "take": Case(lambda xp, x, i: (xp.take(x, i), xp.take(x, i, axis=-1)), (of_shape(4, "B", 4),), (indices(4, 5),)),
    "take_along_axis": Case(
        lambda xp, x, i: (xp.take_along_axis(x, i), xp.take_along_axis(x, i[:1], axis=0)),
        (of_shape(4, 4),),
        (indices(4, 4, 4),),
    ),
    "pick": Case(lambda xp, x, i: xp.pick(x, i), (CUBE,), (indices(3, "T", "B"),)),
}

OPERATORS = {
    "sums and products": Case(
        lambda xp, x, y, z: (x + y, x - 1.5, 2.0 * x, x / z, 1.0 / z, -x, z**2, x * y),
        (of_shape("T", "B", numbers=SMALL), of_shape("B", numbers=SMALL), of_shape("T", 1, numbers=floats(0.25, 4.0))),
    ),
    "products of matrices": Case(
        lambda xp, x, y: x @ y, (of_shape("B", 4, numbers=SMALL), of_shape(4, 3, numbers=SMALL))
    ),
    "comparisons": Case(
        lambda xp, x, y, i: (x < y, x <= 0.0, x > y, x >= math.inf, i == 2, i != 1), held=(X, X, indices(3, "B"))
    ),
    "flags": Case(lambda xp, x, y: (x & y, x | y, ~x), held=(flags("T", "B"), flags("T", "B"))),
    "slices": Case(lambda xp, x: (x[0], x[..., 0], x[:, None], x[-1:], x[..., 1:], x[::2]), (CUBE,)),
    "integers": Case(lambda xp, i, j: (i + j, i - 1, i * j, -i), held=(indices(9, "T", "B", low=-9), indices(9, "B"))),
}
"""What the dialect takes from the arrays themselves."""

GROUPS = {
    "element by element": ELEMENTWISE,
    "over axes": OVER_AXES,
    "making and placing": MAKING_AND_PLACING,
    "operators": OPERATORS,
}
