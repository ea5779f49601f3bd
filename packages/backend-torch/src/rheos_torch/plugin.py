"""The plugin of rheos-backend-torch."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import BackendSpec

__all__ = ["rheos_backends"]


@hookimpl
def rheos_backends() -> list[BackendSpec]:
    """Offer PyTorch."""
    return [
        BackendSpec(
            name="torch",
            summary="PyTorch, on CPU or GPU",
            factory="rheos_torch.backend:make_backend",
            export_formats=("torch", "onnx"),
        )
    ]
