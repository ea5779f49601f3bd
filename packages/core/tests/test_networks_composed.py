"""Tree, Heads and Native: what a network of networks is called, weighs and gives, and what does not go together."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.errors import ConfigError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks, acts_in_numpy
from rheos.networks.specs import CNN, GRU, LSTM, MLP, Heads, Native, Normalizer, Parameter, ResNet, Tree
from rheos.networks.weights import leaf_specs, trainable_shapes, weight_shapes

NESTED = {
    "net": Heads(
        Tree({"speed": Normalizer(2), "camera.left": MLP(3, 4, ())}),
        {"policy": MLP(6, 2, ()), "log_std": Parameter((2,)), "values": Heads(MLP(6, 5, ()), {"mean": MLP(5, 1, ())})},
    )
}


def drawn(specs):
    """Weights of which none is 0."""
    generator = np.random.default_rng(0)
    return {n: generator.normal(size=s).astype(np.float32) for n, s in weight_shapes(specs).items()}


def make_nothing():
    raise AssertionError("core makes no native network")


def test_weights_are_named_by_the_parts_that_they_belong_to():
    assert {
        "net/trunk/speed/mean": (2,),
        "net/trunk/speed/std": (2,),
        "net/trunk/camera.left/output/kernel": (3, 4),
        "net/trunk/camera.left/output/bias": (4,),
        "net/policy/output/kernel": (6, 2),
        "net/policy/output/bias": (2,),
        "net/log_std/value": (2,),
        "net/values/trunk/output/kernel": (6, 5),
        "net/values/trunk/output/bias": (5,),
        "net/values/mean/output/kernel": (5, 1),
        "net/values/mean/output/bias": (1,),
    } == weight_shapes(NESTED)


def test_a_normalizer_is_not_trained_however_deep_it_lies():
    fixed = weight_shapes(NESTED).keys() - trainable_shapes(NESTED).keys()

    assert {"net/trunk/speed/mean", "net/trunk/speed/std"} == fixed


def test_parts_start_as_they_would_alone():
    weights = initial_weights(NESTED, np.random.default_rng(0))
    alone = initial_weights(leaf_specs(NESTED), np.random.default_rng(0))

    assert list(weight_shapes(NESTED)) == list(weights)
    for name, array in alone.items():
        np.testing.assert_array_equal(array, weights[name])


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_a_tree_joins_its_parts_and_heads_share_a_trunk(leading):
    weights = drawn(NESTED)
    generator = np.random.default_rng(1)
    inputs = {
        "camera.left": generator.normal(size=(*leading, 3)).astype(np.float32),
        "speed": generator.normal(size=(*leading, 2)).astype(np.float32),
        "unread": np.zeros(7),
    }

    outputs = NumpyNetworks(NESTED, weights)["net"](inputs)

    speed = (inputs["speed"] - weights["net/trunk/speed/mean"]) / weights["net/trunk/speed/std"]
    camera = inputs["camera.left"] @ weights["net/trunk/camera.left/output/kernel"]
    camera = camera + weights["net/trunk/camera.left/output/bias"]
    features = np.concatenate([np.clip(speed, -10, 10), camera], -1)
    policy = features @ weights["net/policy/output/kernel"] + weights["net/policy/output/bias"]
    trunk = features @ weights["net/values/trunk/output/kernel"] + weights["net/values/trunk/output/bias"]
    mean = trunk @ weights["net/values/mean/output/kernel"] + weights["net/values/mean/output/bias"]
    assert ["policy", "log_std", "values"] == list(outputs)
    np.testing.assert_allclose(policy, outputs["policy"], rtol=1e-4, atol=1e-4)  # float32, values of about 10
    np.testing.assert_allclose(mean, outputs["values"]["mean"], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(weights["net/log_std/value"], outputs["log_std"])


@pytest.mark.parametrize("memory", [LSTM(3, 4), GRU(3, 4)], ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("around", [lambda m: Tree({"m": m}), lambda m: Heads(MLP(2, 2), {"m": m})])
def test_a_recurrent_part_is_refused_with_its_path_and_the_way_out(memory, around):
    specs = {"net": Heads(around(memory), {"value": MLP(4, 1)})}
    kind = type(memory).__name__

    with pytest.raises(ConfigError, match=rf"^network `net/trunk/m`: {kind} needs a state .* beside `net/trunk`\.$"):
        weight_shapes(specs)


def test_a_head_called_trunk_is_refused():
    with pytest.raises(ConfigError, match="a head is called `trunk`"):
        weight_shapes({"net": Heads(MLP(2, 2), {"trunk": MLP(2, 1)})})


@pytest.mark.parametrize(
    "specs",
    [
        {"a": Tree({"b/c": MLP(1, 1)}), "a/b": Tree({"c": MLP(1, 1)})},
        {"a": MLP(1, 1), "a/output": LSTM(1, 1)},
        {"a": Native(make_nothing), "a/b": MLP(1, 1)},
    ],
    ids=["one path", "within another", "within a native one"],
)
def test_names_that_would_make_weights_of_two_networks_alike_are_refused(specs):
    with pytest.raises(ConfigError, match=r"^network `a/.+`: weights of another one are named so, too"):
        weight_shapes(specs)


def test_core_knows_no_weights_of_a_native_network():
    specs = {"native": Native(make_nothing), "net": Tree({"x": Native(make_nothing), "y": MLP(2, 1, ())})}

    assert ["net/y/output/kernel", "net/y/output/bias"] == list(weight_shapes(specs))
    assert list(weight_shapes(specs)) == list(initial_weights(specs, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("specs", "path"),
    [
        ({"native": Native(make_nothing)}, "native"),
        ({"net": Heads(MLP(2, 2), {"x": Tree({"y": Native(make_nothing)})})}, "net/x/y"),
    ],
    ids=["alone", "nested"],
)
def test_a_native_network_is_refused_in_numpy_whatever_weights_there_are(specs, path):
    with pytest.raises(ConfigError, match=rf"^network `{path}`: a Native network runs on its own framework only"):
        NumpyNetworks(specs, {"native/weight": np.zeros(1, np.float32)})


@pytest.mark.parametrize("part", [CNN((84, 84, 4)), ResNet((8, 8, 3), 4, (2,)), Native(make_nothing)])
def test_what_numpy_runs_slower_or_not_at_all_is_found_in_any_depth(part):
    assert not acts_in_numpy({"x": part})
    assert not acts_in_numpy({"x": Heads(Tree({"x": part, "y": MLP(3, 4)}), {"z": MLP(4, 2)})})


def test_other_networks_act_in_numpy_by_the_number_of_their_weights():
    assert acts_in_numpy({**NESTED, "lstm": LSTM(64, 256), "gru": GRU(64, 256)})
    assert not acts_in_numpy({"lstm": LSTM(64, 512)})
