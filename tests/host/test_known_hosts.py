"""What a known_hosts file says about a name and a key."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest
from paramiko.hostkeys import HostKeys as Paramiko

from specctl.host.known_hosts import KeyState, judge, lookup, name_of, record

KEY = paramiko.ECDSAKey.generate()
OTHER = paramiko.ECDSAKey.generate()
RSA = paramiko.RSAKey.generate(2048)


def line(names: str, key: paramiko.PKey = KEY, marker: str = "") -> str:
    return f"{marker}{names} {key.get_name()} {key.get_base64()} a comment\n"


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ("", KeyState.UNKNOWN),
        (line("other"), KeyState.UNKNOWN),
        (line("box"), KeyState.KNOWN),
        (line("first,box,last"), KeyState.KNOWN),
        (line("BOX"), KeyState.KNOWN),
        (line("b?x"), KeyState.KNOWN),
        (line("*"), KeyState.KNOWN),
        (line("*,!box"), KeyState.UNKNOWN),
        (line(Paramiko.hash_host("box")), KeyState.KNOWN),
        (line(Paramiko.hash_host("other")), KeyState.UNKNOWN),
        (line("|1|broken"), KeyState.UNKNOWN),
        (line("[box]:22"), KeyState.UNKNOWN),
        (line("box", OTHER), KeyState.CHANGED),
        (line("box", RSA), KeyState.CHANGED),
        (line("box", OTHER) + line("box"), KeyState.KNOWN),
        (line("box") + line("*", KEY, "@revoked "), KeyState.REVOKED),
        (line("*", OTHER, "@revoked "), KeyState.UNKNOWN),
        (line("box", KEY, "@cert-authority "), KeyState.UNKNOWN),
        ("# comment\n\nbox\nbox ssh-rsa\n" + line("box"), KeyState.KNOWN),
        (line("box").replace(" ", "\t"), KeyState.KNOWN),
    ],
)
def test_a_key_is_judged_by_the_lines_that_match(tmp_path: Path, content: str, state: KeyState) -> None:
    (tmp_path / "known").write_text(content)
    assert judge(KEY, lookup("box", (str(tmp_path / "known"),))) is state


def test_another_port_is_another_name(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(line("[box]:2222"))
    assert judge(KEY, lookup(name_of("box", 2222), (str(tmp_path / "known"),))) is KeyState.KNOWN
    assert judge(KEY, lookup(name_of("box", 22), (str(tmp_path / "known"),))) is KeyState.UNKNOWN


def test_all_files_count_and_a_missing_one_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"caf\xe9 ...\n" + line("box").encode())
    (found,) = lookup("box", (str(tmp_path / "a"), str(tmp_path / "b")))
    assert (found.file, found.line) == (str(tmp_path / "b"), 2)
    assert found.fingerprint == KEY.fingerprint


@pytest.mark.parametrize("before", [None, "", "# note", "# note\n"])
def test_a_recorded_key_is_found_again_and_nothing_else_is_harmed(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "ssh" / "known"
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)
    record("[box]:2222", KEY, str(file))
    text = file.read_text()
    assert text.startswith(before.strip() if before else "[box]")
    assert judge(KEY, lookup("[box]:2222", (str(file),))) is KeyState.KNOWN
    if before is None:
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
