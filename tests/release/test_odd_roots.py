"""A whole deploy and rollback below a root with blanks, quotes and signs of shells in its name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from specctl.release.result import Outcome

from .sandbox import Sandbox

NAME = "a b'c\"d;e%f&g$(touch pwned)`id`*"


def test_a_root_of_any_name_is_deployed_to_and_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / NAME
    folder.mkdir()
    # the sandbox starts its servers without supervisor, which would refuse such a root
    monkeypatch.setattr("specctl.release.supervisors.ini_value", str)
    sandbox = Sandbox(folder)
    try:
        sandbox.change("main", env={"ODD": NAME}, model=f"/models/{NAME}\n")
        for number in (1, 2):
            result = sandbox.deploy(sandbox.dist(number))
            assert result.outcome is Outcome.DONE, result.error
        assert sandbox.version() == "0.5.9+specctl.2"
        assert sandbox.rollback().outcome is Outcome.DONE
        assert sandbox.version() == "0.5.9+specctl.1"
    finally:
        sandbox.close()
    assert [p.name for p in tmp_path.iterdir()] == [NAME]  # nothing was made beside it by mistake
