"""The whole job over a real sshd with the real SGLang: deployed, proven, broken, rolled back. Minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rig import environment

from .sshd import INSTALL, find_sshd

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.rig
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_real_sglang_is_deployed_proven_broken_and_rolled_back_over_ssh() -> None:
    if reason := environment.why_not():
        pytest.skip(reason)
    if find_sshd() is None:
        pytest.skip(f"no sshd here; as root: {INSTALL}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "worker=EAGLEWorkerV2" in done.stdout
    assert "exit code 6" in done.stdout
