"""How the tests here compile: as far as graphs, which take torch seconds, unless a test asks for machine code."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from rheos_tf.framework import tf
from rheos_tf.graphs import Graph
from rheos_torch.backend import TorchBackend

logging.getLogger("torch.__trace").disabled = True  # else a failure is shown with all that torch notes as it compiles


@pytest.fixture(autouse=True)
def _graphs_without_code(request, monkeypatch):
    if "makes_code" not in request.fixturenames:
        monkeypatch.setitem(TorchBackend.__init__.__kwdefaults__, "compiler", "aot_eager")


@pytest.fixture
def makes_code(monkeypatch):
    """Let torch compile as a run does, a minute for each loss, and TensorFlow by XLA, which a run does not ask for."""

    def call(graph, arrays):
        """Only a call of the function itself is compiled."""
        return dict(zip(graph.outputs, graph.concrete(*map(tf.convert_to_tensor, arrays)), strict=True))

    monkeypatch.setattr(tf, "function", partial(tf.function, jit_compile=True))
    monkeypatch.setattr(Graph, "__call__", call)
