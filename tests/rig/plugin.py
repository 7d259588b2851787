"""The `rig` fixture: real SGLang servers for tests in any folder.

Where the rig is not made, tests that ask for it are skipped; with SPECCTL_RIG_REQUIRED set they fail.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def group_of(nodeid: str) -> str:
    """Tests of one file run in one process; the rig's tests of one worker and algorithm do, across files."""
    file, _, rest = nodeid.partition("::")
    named = re.search(r"\[(v[12]-EAGLE3?)-", rest)
    return named[1] if named and Path(file).parent.name == "rig" else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` keeps together what `group_of` names, with or without marks."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Starts servers; see `Rig`."""
    reason = environment.why_not()
    if reason and os.environ.get("SPECCTL_RIG_REQUIRED"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    made = Rig(tmp_path_factory.mktemp("rig"))
    try:
        yield made
    finally:
        made.close()
