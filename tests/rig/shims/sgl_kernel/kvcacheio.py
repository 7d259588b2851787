"""HiCache imports its copy kernels from here on every device but NPU and XPU. It is not used on the rig."""

from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.kvcacheio.{name}: not on the CPU rig")

    return call
