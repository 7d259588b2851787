"""Who cannot log in is told which key file is wrong and why; who cannot connect, where to look."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from specctl.host.auth import Keys, offered
from specctl.host.connection import open_chain
from specctl.host.errors import Unreachable
from specctl.host.ssh_config import Hop


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def make_key(path: Path, passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def hop(*files: Path, address: str = "127.0.0.1", port: int = 22) -> Hop:
    return Hop(address, address, port, "ada", tuple(map(str, files)), False, (), address, False)


def test_each_key_file_that_cannot_be_offered_is_named_with_what_to_do(tmp_path: Path) -> None:
    good, locked = make_key(tmp_path / "good"), make_key(tmp_path / "locked", "secret")
    public = make_key(tmp_path / "other").with_suffix(".pub")
    keys = Keys(hop(tmp_path / "none", public, locked, good))
    assert [offered(source) for source in keys.get_sources()] == [str(good)]
    assert keys.notes == [
        f"{tmp_path / 'none'}: no such file",
        f"{public}: is a public key; name the private one, {tmp_path / 'other'}",
        f"{locked}: has a passphrase, and the ssh agent does not hold it (ssh-add {locked})",
    ]


def test_a_host_without_sshd_is_told_with_where_to_look() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        port = int(taken.getsockname()[1])
        with pytest.raises(Unreachable) as caught:
            open_chain("gpu-1", [hop(port=port)], 5)
    assert "refuses the connection" in caught.value.message
    assert f"is {port} its port" in str(caught.value.hint)
