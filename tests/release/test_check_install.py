"""What is said of an install that cannot be imported: a real Python in an environment made by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from config.builders import make_host

from specctl.config.model import EnvironmentKind
from specctl.host.local import LocalHost
from specctl.release.actions.check import CheckInstall
from specctl.release.errors import InstallFailed
from specctl.release.layout import Layout
from specctl.release.remote import Remote

RELEASE = "0.5.9+specctl.1-00000001"
METADATA = """Metadata-Version: 2.1
Name: sglang
Version: 1
Requires-Dist: numpie>=2
Requires-Dist: sglang
Requires-Dist: wine; sys_platform == 'win32'
"""


def checked(tmp_path: Path, init: str, **changes: Any) -> InstallFailed:
    """The refusal of an environment whose `sglang/__init__.py` is `init`."""
    layout = Layout(str(tmp_path))
    venv = Path(layout.release(RELEASE).venv)
    site = venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (site / "sglang").mkdir(parents=True)
    (site / "sglang" / "__init__.py").write_text(init)
    (site / "sglang-1.dist-info").mkdir()
    (site / "sglang-1.dist-info" / "METADATA").write_text(METADATA)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix, 'bin')}\n")
    host = LocalHost("here")
    ctx = SimpleNamespace(
        host=host, remote=Remote(host, str(tmp_path), "r"), layout=layout, config=make_host(**changes)
    )
    with pytest.raises(InstallFailed) as caught:
        CheckInstall(RELEASE, "1").apply(ctx)  # type: ignore[arg-type]
    assert caught.value.code == "import-failed"
    return caught.value


def test_a_package_that_an_adopted_environment_lacks_is_named_in_a_sentence(tmp_path: Path) -> None:
    adopting = {"environment": EnvironmentKind.ADOPTED, "adopt": "/opt/env"}
    error = checked(tmp_path, "import numpie.core\n", **adopting)
    assert error.message == "here: SGLang needs the module numpie, and /opt/env has none"
    assert error.context["missing packages"] == "numpie"
    assert "install what is missing into /opt/env" in str(error.hint)
    assert "Traceback" not in repr(error.as_dict())


def test_another_cause_is_a_sentence_too_and_its_traceback_is_kept(tmp_path: Path) -> None:
    error = checked(tmp_path, "raise ImportError('libtorch_cuda.so: undefined symbol')\n")
    assert error.message == (
        "here: SGLang cannot be imported: ImportError: libtorch_cuda.so: undefined symbol"
    )
    assert "Traceback" in error.context["output"]
    assert "deploy again" in str(error.hint)
