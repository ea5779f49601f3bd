"""The plugin of rheos-backend-tf."""

from __future__ import annotations

from rheos.plugins.hooks import hookimpl
from rheos.plugins.specs import BackendSpec

__all__ = ["rheos_backends"]


@hookimpl
def rheos_backends() -> list[BackendSpec]:
    """Offer TensorFlow."""
    return [
        BackendSpec(
            name="tf",
            summary="TensorFlow, on CPU or GPU",
            factory="rheos_tf.backend:make_backend",
            export_formats=("savedmodel",),
        )
    ]
