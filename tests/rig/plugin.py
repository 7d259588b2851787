"""The `rig` fixture: real SGLang servers for tests in any folder. Skips where the rig is not made."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import environment, reference
from .load import Load
from .run import Run, run
from .server import Nursery, Server, Spec, serve


class Rig:
    """Servers of this test process, and what they gave so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._nurseries: dict[str, Nursery] = {}
        self._runs: dict[tuple[Spec, Load], Run] = {}
        self._numbers = itertools.count()

    def _nursery(self, tree: str) -> Nursery:
        if tree not in self._nurseries:
            self._nurseries[tree] = Nursery(environment.tree(tree))
        return self._nurseries[tree]

    def serve(self, spec: Spec, *, ready: bool = True) -> contextlib.AbstractContextManager[Server]:
        """A server of its own, ended with the context; its files lie in a folder named after the spec."""
        folder = self.folder / f"{next(self._numbers):03d}-{spec.name}"
        return serve(self._nursery(spec.tree), spec, folder, ready=ready)

    def run(self, spec: Spec, load: Load) -> Run:
        """Apply a load to a fresh server; the same spec and load run once in a test process."""
        if (spec, load) not in self._runs:
            with self.serve(spec) as server:
                self._runs[spec, load] = run(server, load)
        return self._runs[spec, load]

    def reference(self, load: Load, spec: Spec = reference.PLAIN) -> dict[str, list[int]]:
        """Request id -> tokens, as the plain server of the published wheel answers."""
        return {rid: answer["tokens"] for rid, answer in reference.answers(self.serve, load, spec).items()}

    def close(self) -> None:
        for nursery in self._nurseries.values():
            nursery.close()


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Starts servers; see `Rig`."""
    reason = environment.why_not()
    if reason:
        pytest.skip(reason)
    made = Rig(tmp_path_factory.mktemp("rig"))
    try:
        yield made
    finally:
        made.close()
