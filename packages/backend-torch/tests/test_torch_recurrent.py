"""LSTM and GRU on torch against torch's own modules with the same weights: outputs, states and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rheos.networks.specs import GRU, LSTM
from rheos.networks.weights import weight_shapes
from rheos_torch.networks import TorchNetworks

INPUTS, UNITS = 5, 4


def drawn(specs: dict[str, LSTM | GRU]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in weight_shapes(specs).items()}


def torchs_own(kind: str, weights: dict[str, np.ndarray]) -> nn.RNNBase:
    """torch's module of the weights: its kernels are transposed, and it has two biases."""
    module: nn.RNNBase = nn.LSTM(INPUTS, UNITS) if kind == "lstm" else nn.GRU(INPUTS, UNITS)
    recurrent_bias = np.zeros_like(weights["n/bias"])
    if kind == "gru":
        recurrent_bias[2 * UNITS :] = weights["n/recurrent_bias"]
    arrays = {
        "weight_ih_l0": weights["n/kernel"].T,
        "weight_hh_l0": weights["n/recurrent_kernel"].T,
        "bias_ih_l0": weights["n/bias"],
        "bias_hh_l0": recurrent_bias,
    }
    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    return module


def run_own(module: nn.RNNBase, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, nn.GRU):
        outputs, last = module(x, state[None])
        return outputs, last[0]
    outputs, (h, c) = module(x, (state[None, :, :UNITS].contiguous(), state[None, :, UNITS:].contiguous()))
    return outputs, torch.cat([h[0], c[0]], -1)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_outputs_state_and_gradients_are_those_of_torchs_own_module(kind):
    spec = LSTM(INPUTS, UNITS) if kind == "lstm" else GRU(INPUTS, UNITS)
    weights = drawn({"n": spec})
    own, networks = torchs_own(kind, weights), TorchNetworks({"n": spec}, weights, "cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 3, INPUTS, generator=generator)
    state = torch.randn(3, spec.state_size, generator=generator)

    expected = run_own(own, x, state)
    found = networks["n"](x, state, torch.zeros(7, 3, dtype=torch.bool))
    for outputs, last in (expected, found):
        (outputs.square().sum() + last.sum()).backward()

    # float32: sums of about 10 numbers of about 1, over 7 steps that hold them in [-1, 1]; gradients up to about 100.
    for wanted, got in zip(expected, found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0.0, atol=1e-5)
    gradients = {name: torch.tensor(array) for name, array in networks.by_name(networks.gradient).items()}
    names = {"weight_ih_l0": "kernel", "weight_hh_l0": "recurrent_kernel", "bias_ih_l0": "bias"}
    for theirs, ours in names.items():
        gradient = own.get_parameter(theirs).grad
        assert gradient is not None
        torch.testing.assert_close(
            gradients[f"n/{ours}"], gradient.T if gradient.ndim == 2 else gradient, rtol=1e-4, atol=1e-4
        )
    if kind == "gru":
        gradient = own.get_parameter("bias_hh_l0").grad
        assert gradient is not None
        torch.testing.assert_close(gradients["n/recurrent_bias"], gradient[2 * UNITS :], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", [LSTM(INPUTS, UNITS), GRU(INPUTS, UNITS)], ids=["lstm", "gru"])
def test_no_gradient_passes_over_the_beginning_of_an_episode(spec):
    network = TorchNetworks({"n": spec}, drawn({"n": spec}), "cpu")["n"]
    x = torch.randn(5, 2, INPUTS, generator=torch.Generator().manual_seed(0)).requires_grad_()
    state = torch.ones(2, spec.state_size, requires_grad=True)
    is_first = torch.zeros(5, 2, dtype=torch.bool)
    is_first[3, 0] = True

    outputs, _ = network(x, state, is_first)
    outputs[3:].square().sum().backward()

    assert x.grad is not None
    assert state.grad is not None
    assert not x.grad[:3, 0].any()
    assert not state.grad[0].any()
    assert x.grad[:3, 1].all()
    assert state.grad[1].all()
