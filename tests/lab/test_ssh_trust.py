"""Whom a connection trusts and who lets it in: host keys at every hop, jump hosts, keys and agents."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specctl.config.model import HostKeys, SshConfig
from specctl.host.errors import AuthRefused, HostKeyRefused, Unreachable
from specctl.host.parallel import each
from specctl.host.ssh import SshHost

from .hosts import ssh_to
from .lab import Lab
from .machine import make_key

pytestmark = pytest.mark.lab

H1, H2 = "198.51.100.11", "198.51.100.12"


@pytest.fixture
def hostname(in_lab: Lab) -> Iterator[Callable[[SshConfig], str]]:
    """Connects, asks the host for its name, and closes."""
    made: list[SshHost] = []

    def ask(ssh: SshConfig) -> str:
        made.append(SshHost("target", ssh))
        return made[-1].run(["hostname"]).text.strip()

    yield ask
    for host in made:
        host.close()


@pytest.fixture
def other_key(tmp_path: Path) -> str:
    """A host key that no host has, as known_hosts writes it."""
    make_key(tmp_path / "other", "other")
    return " ".join((tmp_path / "other.pub").read_text().split()[:2])


def known(lab: Lab, path: Path, **keys: str) -> str:
    """A known_hosts file with these keys, by host name."""
    path.write_text("".join(f"{lab.machine(name).address} {key}\n" for name, key in keys.items()))
    return str(path)


# -- host keys


@pytest.mark.parametrize("jumped", [False, True])
def test_an_unknown_key_is_refused_with_its_fingerprint(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, jumped: bool
) -> None:
    empty = known(in_lab, tmp_path / "known")
    ssh = ssh_to(in_lab, "h1", known_hosts=empty)
    if jumped:
        ssh = ssh_to(in_lab, "h2", jumps=(ssh,))
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", in_lab.machine("h1").host_key_file], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    with pytest.raises(HostKeyRefused, match=rf"host key of deploy@{H1}:22 is not known") as caught:
        hostname(ssh)
    assert caught.value.code == "host-key-unknown"
    assert fingerprint in caught.value.context["key seen"]
    assert "accept-new" in str(caught.value.hint)
    assert (tmp_path / "known").read_text() == ""


@pytest.mark.parametrize("jumped", [False, True])
@pytest.mark.parametrize("policy", list(HostKeys))
def test_a_changed_key_is_refused_at_every_hop_whatever_the_policy(
    in_lab: Lab,
    hostname: Callable[[SshConfig], str],
    tmp_path: Path,
    other_key: str,
    jumped: bool,
    policy: HostKeys,
) -> None:
    wrong = known(in_lab, tmp_path / "known", h1=other_key)
    ssh = ssh_to(in_lab, "h1", known_hosts=wrong, host_keys=policy)
    if jumped:
        ssh = ssh_to(in_lab, "h2", jumps=(ssh,))
    with pytest.raises(HostKeyRefused, match="has changed") as caught:
        hostname(ssh)
    assert caught.value.code == "host-key-changed"
    context = caught.value.context
    assert f"{tmp_path}/known:1" in context["key on record"]
    seen, on_record = context["key seen"].split()[1], context["key on record"].split()[1]
    assert seen.startswith("SHA256:")
    assert on_record.startswith("SHA256:")
    assert seen != on_record
    assert f"ssh-keygen -R '{H1}'" in str(caught.value.hint)


def test_a_changed_key_behind_a_good_jump_host_is_refused(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, other_key: str
) -> None:
    wrong = known(in_lab, tmp_path / "known", h2=other_key)
    ssh = ssh_to(in_lab, "h2", known_hosts=wrong, jumps=(ssh_to(in_lab, "h1"),))
    with pytest.raises(HostKeyRefused, match=f"deploy@{H2}:22 has changed"):
        hostname(ssh)


def test_accept_new_records_an_unknown_key_and_holds_the_host_to_it(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, other_key: str
) -> None:
    file = tmp_path / "new folder" / "known"
    jump = ssh_to(in_lab, "h1", known_hosts=str(file), host_keys=HostKeys.ACCEPT_NEW)
    ssh = ssh_to(in_lab, "h2", known_hosts=str(file), host_keys=HostKeys.ACCEPT_NEW, jumps=(jump,))
    assert hostname(ssh) == "h2"
    assert file.read_text().splitlines() == [
        f"{H1} {in_lab.machine('h1').host_key}",
        f"{H2} {in_lab.machine('h2').host_key}",
    ]
    assert hostname(replace(ssh, host_keys=HostKeys.STRICT)) == "h2"
    assert len(file.read_text().splitlines()) == 2


def test_hosts_behind_one_new_jump_host_record_its_key_once(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path
) -> None:
    file = str(tmp_path / "known")
    jump = ssh_to(in_lab, "h1", known_hosts=file, host_keys=HostKeys.ACCEPT_NEW)
    targets = [ssh_to(in_lab, name, jumps=(jump,)) for name in ("h2", "h3", "h2", "h3")]
    assert [outcome.value for outcome in each(targets, hostname)] == ["h2", "h3", "h2", "h3"]
    assert Path(file).read_text().count(H1) == 1


def test_fabrics_own_configuration_files_change_nothing(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".fabric.yaml").write_text("user: nobody\nport: 1\ngateway: none.invalid\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hostname(ssh_to(in_lab, "h1")) == "h1"


def test_the_right_key_among_several_of_one_kind_is_found(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, other_key: str
) -> None:
    file = tmp_path / "known"
    file.write_text(f"{H1} {other_key}\n{H1} {in_lab.machine('h1').host_key}\n")
    assert hostname(ssh_to(in_lab, "h1", known_hosts=str(file))) == "h1"


def test_a_host_with_keys_of_several_kinds_is_asked_for_the_one_on_record(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path
) -> None:
    machine, key = in_lab.machine("h3"), "/etc/ssh/ssh_host_ecdsa_key"
    machine.run("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", key)
    try:
        machine.run("systemctl", "reload", "ssh")
        machine.wait()
        public = " ".join(machine.run("cat", f"{key}.pub").split()[:2])
        file = known(in_lab, tmp_path / "known", h3=public)
        assert hostname(ssh_to(in_lab, "h3", known_hosts=file)) == "h3"
        assert hostname(ssh_to(in_lab, "h3")) == "h3"
    finally:
        machine.run("rm", key, f"{key}.pub")
        machine.run("systemctl", "reload", "ssh")
        machine.wait()


def test_a_revoked_key_is_refused(in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path) -> None:
    file = tmp_path / "known"
    key = in_lab.machine("h1").host_key
    file.write_text(f"@revoked * {key}\n{H1} {key}\n")
    with pytest.raises(HostKeyRefused, match="revoked"):
        hostname(ssh_to(in_lab, "h1", known_hosts=str(file), host_keys=HostKeys.ACCEPT_NEW))


# -- jumps and the ssh configuration


def test_two_jumps_lead_to_the_host(in_lab: Lab, hostname: Callable[[SshConfig], str]) -> None:
    jumps = (ssh_to(in_lab, "h1"), ssh_to(in_lab, "h2", user="ops"))
    assert hostname(ssh_to(in_lab, "h3", jumps=jumps)) == "h3"


def test_a_host_that_its_jump_host_cannot_reach_is_told_with_the_way_there(
    in_lab: Lab, hostname: Callable[[SshConfig], str]
) -> None:
    in_lab.faults("h2").refuse()
    with pytest.raises(Unreachable, match="behind a jump host that does not answer there") as caught:
        hostname(ssh_to(in_lab, "h2", jumps=(ssh_to(in_lab, "h1"),)))
    assert caught.value.context["through"] == f"deploy@{H1}:22"


def test_a_jump_host_that_is_down_is_the_one_that_is_named(
    in_lab: Lab, hostname: Callable[[SshConfig], str]
) -> None:
    in_lab.faults("h1").black_hole()
    with pytest.raises(Unreachable, match=f"deploy@{H1}:22 does not answer"):
        hostname(ssh_to(in_lab, "h2", jumps=(ssh_to(in_lab, "h1"),)))


def configured(lab: Lab, tmp_path: Path, text: str, **changes: Any) -> SshConfig:
    """The host `box` as only an ssh configuration describes it."""
    path = tmp_path / "config"
    path.write_text(text.format(lab=lab, key=lab.key, known=lab.known_hosts))
    return SshConfig(address="box", config_file=str(path), connect_timeout_s=3.0, **changes)


COMMON = "Host *\n IdentityFile {key}\n UserKnownHostsFile {known}\n User deploy\n"


def test_the_ssh_configuration_alone_is_enough(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path
) -> None:
    text = f"Host box\n HostName {H2}\n ProxyJump ops@hop\nHost hop\n HostName {H1}\n{COMMON}"
    assert hostname(configured(in_lab, tmp_path, text)) == "h2"


def test_proxyjump_none_means_direct(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path
) -> None:
    in_lab.faults("h1").black_hole()
    text = f"Host box\n HostName {H2}\n ProxyJump none\nHost *\n ProxyJump {H1}\n{COMMON}"
    assert hostname(configured(in_lab, tmp_path, text)) == "h2"


def test_a_proxy_command_carries_the_connection(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path
) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "link = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536):\n"
        "        link.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := link.recv(65536):\n"
        "    os.write(1, data)\n"
    )
    text = f"Host box\n HostName {H2}\n ProxyCommand python3 {relay} %h %p\n{COMMON}"
    assert hostname(configured(in_lab, tmp_path, text)) == "h2"


# -- keys


@pytest.fixture
def agent(in_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A running ssh agent; call it with key files to add them."""
    socket = tmp_path / "agent.sock"
    said = subprocess.run(
        ["ssh-agent", "-s", "-a", socket], capture_output=True, text=True, check=True
    ).stdout
    pid = int(said.split("SSH_AGENT_PID=")[1].split(";")[0])
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield lambda *keys: subprocess.run(["ssh-add", "-q", *keys], check=True, capture_output=True, timeout=30)
    os.kill(pid, signal.SIGTERM)


def eight_keys(folder: Path) -> list[Path]:
    """More keys than a server listens to."""
    for number in range(8):
        make_key(folder / f"k{number}", f"k{number}")
    return [folder / f"k{number}" for number in range(8)]


def test_an_agent_full_of_other_keys_does_not_keep_the_named_key_out(
    in_lab: Lab, hostname: Callable[[SshConfig], str], agent: Callable[..., None], tmp_path: Path
) -> None:
    agent(*eight_keys(tmp_path))
    assert hostname(ssh_to(in_lab, "h1")) == "h1"


def test_too_many_keys_are_told_as_that_and_identities_only_helps(
    in_lab: Lab, hostname: Callable[[SshConfig], str], agent: Callable[..., None], tmp_path: Path
) -> None:
    agent(*eight_keys(tmp_path))
    wrong = ssh_to(in_lab, "h1", identity_file=str(tmp_path / "k0"))
    with pytest.raises(AuthRefused) as caught:
        hostname(wrong)
    assert "IdentitiesOnly" in str(caught.value.hint)
    with pytest.raises(AuthRefused) as caught:
        hostname(replace(wrong, identities_only=True))
    assert len(caught.value.context["keys"].splitlines()) == 1
    text = f"Host box\n HostName {H1}\n IdentitiesOnly yes\n{COMMON}"
    assert hostname(configured(in_lab, tmp_path, text)) == "h1"


def test_a_key_that_only_the_agent_can_use_is_used_with_identities_only(
    in_lab: Lab, hostname: Callable[[SshConfig], str], agent: Callable[..., None], tmp_path: Path
) -> None:
    agent(in_lab.key)
    locked = tmp_path / "locked"
    locked.write_bytes(in_lab.key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True)
    (tmp_path / "locked.pub").write_text(in_lab.key.with_suffix(".pub").read_text())
    assert hostname(ssh_to(in_lab, "h1", identity_file=str(locked), identities_only=True)) == "h1"


def test_a_locked_key_that_no_agent_holds_is_named(
    in_lab: Lab, hostname: Callable[[SshConfig], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    locked = tmp_path / "locked"
    make_key(locked, "locked")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True)
    with pytest.raises(AuthRefused) as caught:
        hostname(ssh_to(in_lab, "h1", identity_file=str(locked)))
    assert f"{locked}: has a passphrase" in caught.value.context["keys"]


def test_a_key_file_that_is_not_there_is_named(
    in_lab: Lab, hostname: Callable[[SshConfig], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(AuthRefused) as caught:
        hostname(ssh_to(in_lab, "h1", identity_file="/nowhere/key"))
    assert "/nowhere/key: no such file" in caught.value.context["keys"]
    assert caught.value.exit_code == 4
