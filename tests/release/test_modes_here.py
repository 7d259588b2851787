"""Nobody else on a host may change what specctl put there or read its secrets, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specctl.config.model import SecretRef
from specctl.release.onhost.common import put_secret_back
from specctl.release.onhost.tree import keep_secrets, note_secrets, prepare, restore_secrets
from specctl.release.onhost.watcher import put_back
from specctl.release.result import Outcome

from .sandbox import Sandbox

# what belongs to specctl alone; everything else must be readable for the account that runs the server
PRIVATE = {
    ".guard",
    ".lock-guard",
    "args.yaml",
    "armed.json",
    "cache",
    "disarmed.json",
    "salt.json",
    "secrets.env",
    "secrets.json",
    "watch.py",
}


@pytest.fixture(params=[0o000, 0o077], ids=["umask 000", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def everything(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    yield ".", root.stat()
    for path in root.rglob("*"):
        if not path.is_symlink():
            yield str(path.relative_to(root)), path.stat()


def test_no_umask_lets_others_write_there_or_keeps_the_server_from_reading(
    umask: int, sandbox: Sandbox
) -> None:
    sandbox.secrets = {"HF": "hf", "KEY": "k"}
    args_file = str(sandbox.root / "servers" / "main" / "args.yaml")
    refs = {
        "secrets": {"HF_TOKEN": SecretRef("env", "HF")},
        "secret_args": {"--api-key": SecretRef("env", "KEY")},
    }
    sandbox.servers = (replace(sandbox.servers[0], secret_file=args_file, **refs),)
    assert sandbox.deploy(sandbox.dist(1)).outcome is Outcome.DONE
    if umask == 0:  # a way back writes files too
        assert sandbox.deploy(sandbox.dist(2, die_at_start="1")).outcome is Outcome.ROLLED_BACK
    found = dict(everything(sandbox.root))
    # the sandbox starts the server itself, not a supervisor with a umask of its own
    found = {path: s for path, s in found.items() if not path.endswith(("server.log", "/pid", "unit.json"))}
    within = {path for path in found if path.startswith("cache/")}  # nobody gets past cache itself
    writable = [p for p, s in found.items() if s.st_mode & 0o022 and p not in within]
    assert not writable
    for name in ("secrets.env", "args.yaml", "secrets.json"):
        assert stat.S_IMODE(found[f"servers/main/{name}"].st_mode) == 0o600
    assert stat.S_IMODE(found["cache"].st_mode) == 0o700
    unreadable = [
        path
        for path, status in found.items()
        if path not in within
        and Path(path).name not in PRIVATE
        and status.st_mode & (0o005 if stat.S_ISDIR(status.st_mode) else 0o004)
        != (0o005 if stat.S_ISDIR(status.st_mode) else 0o004)
    ]
    assert not unreadable


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_root_that_everyone_may_write_to_is_refused(mode: int, sandbox: Sandbox) -> None:
    sandbox.root.mkdir()
    sandbox.root.chmod(mode)
    result = sandbox.deploy(sandbox.dist(1))
    assert result.error is not None
    assert result.error.code == "root-exposed"
    assert f"{mode:04o}" in result.error.message
    assert not (sandbox.root / "releases").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_a_root_that_belongs_to_somebody_else_is_refused(sandbox: Sandbox) -> None:
    sandbox.root.mkdir()
    os.chown(sandbox.root, 12345, 12345)
    result = sandbox.deploy(sandbox.dist(1))
    assert result.error is not None
    assert result.error.code == "root-exposed"
    assert "belongs to user 12345" in result.error.message


def test_a_cache_that_was_made_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o777)
    prepare(str(tmp_path), {"servers": []})
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.parametrize("way", ["undo", "host"])
def test_a_way_back_gives_the_old_secrets_to_the_account_that_reads_them(way: str, tmp_path: Path) -> None:
    """Root writes them. A key that the server may not read would keep the old release down."""
    root, folder = str(tmp_path), tmp_path / "servers" / "main"
    prepare(root, {"servers": ["main"]})
    file = folder / "secret-args.yaml"
    about = {"server": "main", "files": [str(file)], "remove": [], "own": [str(file)], "owner": "nobody"}
    file.write_text("old")
    note_secrets(root, {**about, "digest": "d1"})
    owner = file.stat().st_uid
    assert owner != 0
    keep_secrets(root, {**about, "digest": "d2"})
    file.unlink()
    file.write_text("new")
    if way == "undo":
        note_secrets(root, {**about, "digest": "d2", "owner": None})
        restore_secrets(root, {**about, "digest": "d1"})
    else:
        put_back(root, {"name": "main", "files": [], "secrets": "d1", "previous": None})
    assert (file.read_text(), file.stat().st_uid) == ("old", owner)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_secrets_that_an_earlier_specctl_kept_are_put_back(tmp_path: Path) -> None:
    put_secret_back(str(tmp_path / "a"), "text")
    assert (tmp_path / "a").read_text() == "text"
