"""The two kinds of environment, made for real: a whole venv from a lock, and a thin one over what serves."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

from release.sandbox import Sandbox
from specctl.config.model import EnvironmentKind
from specctl.errors import SpecctlError
from specctl.release.actions.environment import install_argv, venv_argv
from specctl.release.result import Outcome
from specctl.release.source import own_uv


def package(folder: Path, name: str, version: str = "1.0", text: str = "VALUE = 1\n") -> Path:
    """A small wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with WheelFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tags)
    return path


def pin(path: Path) -> str:
    name, version = path.name.split("-")[:2]
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def run_python(sandbox: Sandbox, number: int, code: str) -> str:
    python = sandbox.root / "releases" / sandbox.release(number) / "venv" / "bin" / "python"
    done = subprocess.run([str(python), "-B", "-c", code], capture_output=True, text=True, cwd=sandbox.root)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def house(sandbox: Sandbox) -> Path:
    """A wheelhouse with two packages, and a sandbox that pushes from it."""
    folder = sandbox.folder / "wheels"
    package(folder, "alpha")
    package(folder, "beta")
    package(folder, "unrelated")
    sandbox.changes = {"wheelhouse": str(folder)}
    return folder


def locked_dist(sandbox: Sandbox, number: int, *wheels: Path) -> Path:
    dist = sandbox.dist(number)
    (dist / "lock-cuda.txt").write_text("# a lock\n" + "".join(map(pin, wheels)))
    return dist


def test_a_host_without_internet_gets_exactly_the_wheels_that_its_lock_names(
    sandbox: Sandbox, house: Path
) -> None:
    alpha, beta = (house / f"{n}-1.0-py3-none-any.whl" for n in ("alpha", "beta"))
    result = sandbox.deploy(locked_dist(sandbox, 1, alpha))
    assert result.error is None, result.error.as_dict()
    assert run_python(sandbox, 1, "import alpha; print(alpha.VALUE)") == "1"
    assert sorted(p.name for p in (sandbox.root / "wheels").glob("*.whl")) == [alpha.name]
    second = locked_dist(sandbox, 2, alpha, beta)
    pushes = [a for a in sandbox.plan(second).actions if a.kind == "push-wheels"]
    assert [Path(f.remote).name for f in pushes[0].files] == [beta.name]  # type: ignore[attr-defined]


def test_a_wheelhouse_that_lacks_a_package_is_refused_before_anything_is_touched(
    sandbox: Sandbox, house: Path
) -> None:
    alpha = house / "alpha-1.0-py3-none-any.whl"
    dist = locked_dist(sandbox, 1, alpha)
    package(house, "alpha", text="VALUE = 'somebody rebuilt it'\n")  # same name, other bytes
    with pytest.raises(SpecctlError) as caught:
        sandbox.plan(dist)
    assert caught.value.code == "wheelhouse-incomplete"
    assert "alpha==1.0" in caught.value.context["missing"]
    assert not sandbox.root.exists()


def test_a_package_for_another_system_may_be_absent(sandbox: Sandbox, house: Path) -> None:
    alpha = house / "alpha-1.0-py3-none-any.whl"
    dist = locked_dist(sandbox, 1, alpha)
    with (dist / "lock-cuda.txt").open("a") as lock:
        lock.write(f"pywin32==1 ; sys_platform == 'win32' \\\n    --hash=sha256:{'0' * 64}\n")
    assert "push-wheels" in [a.kind for a in sandbox.plan(dist).actions]


def test_an_interrupted_install_is_ended_and_never_becomes_current(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.deploy(sandbox.dist(1))
    slow = sandbox.folder / "slow-uv"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    found = own_uv()
    assert found is not None
    dist = sandbox.dist(2)
    maker = sandbox.maker(dist)
    monkeypatch.setattr("specctl.release.actions.environment.venv_argv", lambda *a, **k: (str(slow),))
    sandbox.clock.sleep = lambda seconds: sandbox.engine.cancelled.set()  # type: ignore[method-assign]
    result = sandbox.engine.run(sandbox.config, maker, command="deploy", what="deploy")
    assert result.outcome is Outcome.INTERRUPTED
    assert result.state == "nothing that serves was touched"
    assert sandbox.version() == "0.5.9+specctl.1"
    state = sandbox.state()
    assert not state.releases[sandbox.release(2)].complete
    assert state.lock is None
    assert str(slow) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


# -- adopted


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """An environment that somebody made by hand, with a torch and an editable checkout of sglang."""
    uv = own_uv()
    assert uv is not None
    env = tmp_path / "their-env"
    subprocess.run([uv[1].local, "venv", "-q", "--python", sys.executable, str(env)], check=True)
    wheel = package(tmp_path / "their-wheels", "torch", "2.9.1", "VERSION = 'theirs'\n")
    python = str(env / "bin" / "python")
    subprocess.run(
        [uv[1].local, "pip", "install", "-q", "--no-index", "--python", python, str(wheel)], check=True
    )
    checkout = tmp_path / "checkout" / "sglang"
    checkout.mkdir(parents=True)
    (checkout / "__init__.py").write_text("__version__ = 'their checkout'\n")
    site = next(env.glob("lib/python*/site-packages"))
    (site / "__editable__.sglang-0.5.9.pth").write_text(f"{checkout.parent}\n")
    return env


def entries(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        found[str(path)] = (info.st_size, info.st_mtime_ns, info.st_ino) if path.is_file() else (0, 0, 0)
    return found


def adopt(sandbox: Sandbox, env: Path) -> None:
    sandbox.changes = {"environment": EnvironmentKind.ADOPTED, "adopt": str(env)}


def test_an_adopted_environment_gives_its_packages_and_stays_as_it_is_to_the_byte(
    sandbox: Sandbox, serving: Path
) -> None:
    adopt(sandbox, serving)
    before = entries(serving)
    result = sandbox.deploy(sandbox.dist(1))
    assert result.error is None, result.error.as_dict()
    assert sandbox.version() == "0.5.9+specctl.1"
    assert run_python(sandbox, 1, "import torch; print(torch.VERSION)") == "theirs"
    # our sglang is found, not the editable checkout that the adopted environment names
    assert run_python(sandbox, 1, "import sglang; print(sglang.__version__)") == "0.5.9+specctl.1"
    assert entries(serving) == before


def test_an_editable_finder_that_wins_over_ours_is_found_out_before_the_switch(
    sandbox: Sandbox, serving: Path
) -> None:
    adopt(sandbox, serving)
    site = next(serving.glob("lib/python*/site-packages"))
    checkout = serving.parent / "checkout"
    (site / "__editable__.sglang-0.5.9.pth").write_text(
        f"import sys; sys.path.insert(0, {str(checkout)!r})\n"
    )
    result = sandbox.deploy(sandbox.dist(1))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.code == "install-differs"
    assert "where sglang is imported from" in result.error.message
    assert result.state == "nothing that serves was touched"


def test_a_byte_that_changes_in_the_adopted_environment_fails_the_deploy_and_goes_back(
    sandbox: Sandbox, serving: Path
) -> None:
    adopt(sandbox, serving)
    assert sandbox.deploy(sandbox.dist(1)).outcome is Outcome.DONE
    torch = next(serving.glob("lib/python*/site-packages/torch.py"))

    def meddle(host: str, action: object, event: str) -> None:
        if getattr(action, "kind", "") == "gate" and event == "ok":
            torch.write_text("VERSION = 'changed'\n")

    sandbox.engine.on_step = meddle  # type: ignore[assignment]
    result = sandbox.deploy(sandbox.dist(2))
    assert result.outcome is Outcome.ROLLED_BACK
    assert result.error is not None
    assert result.error.code == "adopted-changed"
    assert sandbox.version() == "0.5.9+specctl.1"


# -- commands


def test_no_install_command_reaches_an_index_when_wheels_are_pushed() -> None:
    argv = install_argv("/u/uv", "/v/python", ("-r", "lock"), wheels="/w", index=False)
    assert argv[:5] == ("/u/uv", "pip", "install", "--python", "/v/python")
    assert {"--offline", "--no-index", "--no-config"} <= set(argv)
    assert argv[argv.index("--find-links") + 1] == "/w"
    assert "--no-index" in install_argv(None, "/v/python", ("-r", "lock"), wheels="/w", index=False)
    assert "--no-index" not in install_argv("/u/uv", "/v/python", ("-r", "lock"), wheels=None, index=True)


@pytest.mark.parametrize(
    ("uv", "adopted", "argv"),
    [
        ("/u/uv", False, ("/u/uv", "venv", "--no-project", "--python", "p", "/v")),
        (None, False, ("p", "-m", "venv", "/v")),
        ("/u/uv", True, ("p", "-B", "-m", "venv", "--without-pip", "/v")),
    ],
)
def test_how_an_environment_is_made(uv: str | None, adopted: bool, argv: tuple[str, ...]) -> None:
    assert venv_argv(uv, "p", "/v", adopted=adopted) == argv
