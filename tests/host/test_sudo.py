"""A host on which sudo does nothing says why, and what to do about that and nothing else."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from specctl.host.errors import CommandFailed, PermissionRefused, SudoNeedsPassword
from specctl.host.files import refused
from specctl.host.local import LocalHost


class Here(LocalHost):
    """This machine, for a user who is not root."""

    @property
    def is_root(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("said", "code", "hint"),
    [
        (None, "sudo-missing", "install it there"),
        ("sudo: a password is required", "sudo-password", "NOPASSWD"),
        ("sudo: Passwort ist notwendig", "sudo-password", "NOPASSWD"),
        ("ann is not in the sudoers file.", "sudo-refused", "specctl sudoers"),
        ("Sorry, user ann is not allowed to execute '/bin/true' as root.", "sudo-refused", "specctl sudoers"),
        ("sudo: sorry, you must have a tty to run sudo", "sudo-tty", "requiretty"),
    ],
)
def test_the_hint_fits_what_sudo_said(
    said: str | None, code: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        sudo = tmp_path / "sudo"
        sudo.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
        sudo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SudoNeedsPassword) as caught:
        Here("h1").run(["true"], sudo=True)
    assert caught.value.code == code
    assert hint in str(caught.value.hint)
    assert ("password" in f"{caught.value.message} {caught.value.hint}") == (code == "sudo-password")


def test_a_command_that_failed_under_a_sudo_that_works_is_not_blamed_on_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CommandFailed) as caught:
        Here("h1").run(["false"], sudo=True)
    assert caught.value.code == "command-failed"


@pytest.mark.parametrize(("root", "hint"), [(False, "sudo: true"), (True, "root_squash")])
def test_a_file_that_root_may_not_write_is_not_answered_with_sudo(root: bool, hint: str) -> None:
    seen = refused("h1", "/mnt/f", "written", {"errno": errno.EACCES}, root=root)
    assert isinstance(seen, PermissionRefused)
    assert hint in str(seen.hint)
    assert ("sudo" in str(seen.hint)) is not root
