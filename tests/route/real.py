"""Running a program in the rig's Python, over the base's own files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rig import environment

HERE = Path(__file__).resolve().parent


def needs_rig() -> None:
    """Skip with one line where the rig is not made."""
    for path in (environment.python(), environment.tree("base") / "sglang"):
        if not path.exists():
            pytest.skip(f"the rig is not made yet (run `make rig`): {path} is missing")


def run_real(program: str, stdin: Any = None) -> str:
    """Standard output of tests/route/PROGRAM under the base's sglang and the rig's shims."""
    shims, base = environment.SHIMS, environment.tree("base")
    done = subprocess.run(
        [str(environment.python()), "-W", "ignore", str(HERE / program)],
        input=json.dumps(stdin).encode(),
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SGLANG_")},
            "PYTHONPATH": f"{shims}:{base}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout.decode()
