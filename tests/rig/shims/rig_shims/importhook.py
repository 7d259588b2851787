"""Run a function right after a module has been imported, or at once when it is imported already."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Patch = Callable[[ModuleType], None]

_patches: dict[str, list[Patch]] = {}


def after_import(module: str, patch: Patch) -> None:
    """Apply `patch(module)` once the module's own code has run; several apply in the order they came."""
    _patches.setdefault(module, []).append(patch)
    if module in sys.modules:
        patch(sys.modules[module])


def register_file(path: str) -> None:
    """Load a hook file: Python source that defines HOOKS = {module name: patch}."""
    for module, patch in runpy.run_path(path)["HOOKS"].items():
        after_import(module, patch)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find the module, then wraps its loader."""

    def __init__(self) -> None:
        self._searching: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _patches or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for patch in _patches[name]:
                patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    sys.meta_path.insert(0, _Finder())
