"""The inventory and the operator's ssh configuration together say where to connect, and how."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from specctl.config.model import HostKeys, SshConfig
from specctl.errors import UsageError
from specctl.host.ssh_config import Hop, hops


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, with an .ssh folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def chain(home: Path, text: str, **ssh: Any) -> tuple[Hop, ...]:
    (home / ".ssh/config").write_text(text)
    return hops(SshConfig(**{"address": "box", **ssh}))


def ways(found: tuple[Hop, ...]) -> list[str]:
    return [f"{hop.user}@{hop.address}:{hop.port}" for hop in found]


ME = getpass.getuser()


def test_nothing_said_means_the_usual(home: Path) -> None:
    (hop,) = hops(SshConfig(address="box"))
    assert ways((hop,)) == [f"{ME}@box:22"]
    assert hop.identity_files == ()
    assert (hop.identities_only, hop.accept_new, hop.proxy_command) == (False, False, None)
    assert hop.known_hosts == (f"{home}/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
    assert hop.key_name == "box"


def test_the_ssh_configuration_fills_what_the_inventory_leaves_open(home: Path) -> None:
    text = """
    Host box
      HostName 10.0.0.7
      Port 2222
      User ann
      IdentityFile ~/.ssh/box_key
      IdentitiesOnly yes
      UserKnownHostsFile ~/.ssh/known_a ~/.ssh/known_b
    """
    (hop,) = chain(home, text)
    assert ways((hop,)) == ["ann@10.0.0.7:2222"]
    assert hop.identity_files == (f"{home}/.ssh/box_key",)
    assert hop.identities_only
    assert hop.known_hosts[:2] == (f"{home}/.ssh/known_a", f"{home}/.ssh/known_b")
    assert hop.key_name == "[10.0.0.7]:2222"


def test_the_inventory_wins(home: Path) -> None:
    text = "Host box\n Port 2222\n User ann\n IdentityFile ~/.ssh/box_key\n IdentitiesOnly yes\n"
    (hop,) = chain(
        home,
        text,
        user="bob",
        port=22,
        explicit=frozenset({"port"}),
        identity_file="~/mine",
        identities_only=False,
        known_hosts="~/known",
        host_keys=HostKeys.ACCEPT_NEW,
    )
    assert ways((hop,)) == ["bob@box:22"]
    assert hop.identity_files == (f"{home}/mine",)
    assert hop.known_hosts == (f"{home}/known",)
    assert (hop.identities_only, hop.accept_new) == (False, True)


def test_config_file_none_is_not_read(home: Path) -> None:
    assert ways(chain(home, "Host *\n User ann\n", config_file="none")) == [f"{ME}@box:22"]


def test_another_file_can_be_named_and_must_be_there(home: Path) -> None:
    (home / "mine").write_text("Host *\n User ann\n")
    assert ways(hops(SshConfig(address="box", config_file="~/mine"))) == ["ann@box:22"]
    with pytest.raises(UsageError, match="cannot be used") as caught:
        hops(SshConfig(address="box", config_file="~/none"))
    assert caught.value.code == "ssh-config"


def test_a_host_key_alias_is_the_name_that_is_looked_up(home: Path) -> None:
    (hop,) = chain(home, "Host box\n HostName 10.0.0.7\n HostKeyAlias box-key\n")
    assert hop.key_name == "box-key"


@pytest.mark.parametrize(
    ("config", "way"),
    [
        ("Host box\n ProxyJump bastion\n", [f"{ME}@bastion:22", f"{ME}@box:22"]),
        ("Host box\n ProxyJump ann@bastion:2200\n", ["ann@bastion:2200", f"{ME}@box:22"]),
        ("Host box\n ProxyJump ssh://ann@bastion:2200/\n", ["ann@bastion:2200", f"{ME}@box:22"]),
        ("Host box\n ProxyJump [fe80::1]:2200\n", [f"{ME}@fe80::1:2200", f"{ME}@box:22"]),
        ("Host box\n ProxyJump one,two\n", [f"{ME}@one:22", f"{ME}@two:22", f"{ME}@box:22"]),
        ("Host box\n ProxyJump none\nHost *\n ProxyJump bastion\n", [f"{ME}@box:22"]),
        ("Host *\n ProxyJump box\n", [f"{ME}@box:22"]),
        ("Host *\n ProxyJump bastion\n", [f"{ME}@bastion:22", f"{ME}@box:22"]),
        (
            "Host box\n ProxyJump two\nHost two\n ProxyJump one\n User ann\n",
            [f"{ME}@one:22", "ann@two:22", f"{ME}@box:22"],
        ),
        (
            "Host box\n ProxyJump one,two\nHost two\n ProxyJump elsewhere\n HostName 10.0.0.2\n",
            [f"{ME}@one:22", f"{ME}@10.0.0.2:22", f"{ME}@box:22"],
        ),
        ("Host box\n ProxyJump two\nHost two\n ProxyJump box\n", [f"{ME}@two:22", f"{ME}@box:22"]),
    ],
)
def test_proxyjump_is_followed_as_ssh_does(home: Path, config: str, way: list[str]) -> None:
    assert ways(chain(home, config)) == way


def test_jumps_of_the_inventory_replace_proxyjump_and_keep_their_own_options(home: Path) -> None:
    jump = SshConfig(address="gate", user="ann", port=2200, known_hosts="/k", host_keys=HostKeys.ACCEPT_NEW)
    found = chain(home, "Host box\n ProxyJump bastion\nHost gate\n HostName 10.0.0.1\n", jumps=(jump,))
    assert ways(found) == ["ann@10.0.0.1:2200", f"{ME}@box:22"]
    assert (found[0].known_hosts, found[0].accept_new) == (("/k",), True)
    assert not found[1].accept_new


def test_no_jumps_said_in_the_inventory_means_direct(home: Path) -> None:
    found = chain(home, "Host box\n ProxyJump bastion\n", explicit=frozenset({"jumps"}))
    assert ways(found) == [f"{ME}@box:22"]


def test_jumps_from_proxyjump_are_held_to_the_hosts_own_key_policy(home: Path) -> None:
    found = chain(home, "Host box\n ProxyJump bastion\n", known_hosts="/k", host_keys=HostKeys.ACCEPT_NEW)
    assert [(hop.known_hosts, hop.accept_new) for hop in found] == [(("/k",), True)] * 2


def test_a_proxy_command_is_taken_over_with_its_tokens_filled(home: Path) -> None:
    (hop,) = chain(home, "Host box\n HostName 10.0.0.7\n Port 2222\n ProxyCommand relay %h %p\n")
    assert hop.proxy_command == "relay 10.0.0.7 2222"
    assert chain(home, "Host box\n ProxyCommand none\n")[0].proxy_command is None


def test_included_files_count_and_do_not_change_the_block_they_stand_in(home: Path) -> None:
    (home / ".ssh/conf.d").mkdir()
    (home / ".ssh/conf.d/a.conf").write_text("Host other\n User zoe\n")
    (home / ".ssh/conf.d/b.conf").write_text("Host box\n Port 2222\n")
    (home / "absolute").write_text("User ann\n")
    text = f"""
    Include conf.d/*.conf none/*
    Host box
      HostName 10.0.0.7
      Include {home}/absolute
      IdentityFile k
    """
    (hop,) = chain(home, text)
    assert ways((hop,)) == ["ann@10.0.0.7:2222"]
    assert hop.identity_files == ("k",)


def test_a_file_that_includes_itself_ends(home: Path) -> None:
    assert ways(chain(home, "Include config\nUser ann\n")) == ["ann@box:22"]
