"""Names that can be imported and raise when called."""

from collections.abc import Callable
from typing import Any


def absent(module: str) -> Callable[[str], Callable[..., Any]]:
    """A module-level `__getattr__` for a stub module."""

    def lookup(name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"{module}.{name}: torchvision is a stub on the CPU rig")

        return call

    return lookup
