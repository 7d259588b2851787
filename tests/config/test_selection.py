"""Which hosts `--hosts`, `--group`, `--server` and `--limit` mean."""

from __future__ import annotations

from typing import Any

import pytest

from config.cases import parse
from specctl.config.selection import select
from specctl.errors import UsageError

INVENTORY = parse(
    """
    hosts:
      gpu-[01:04]:
        servers:
          - {name: chat, model: /m, port: 30000, gpus: 0}
          - {name: code, model: /m, port: 30001, gpus: 1}
      cpu-1: {servers: [<server>]}
    groups:
      east: {hosts: ["gpu-[01:02]", cpu-1]}
      west: {hosts: ["gpu-[03:04]"]}
      all-gpu: {groups: [west], hosts: ["gpu-[01:02]"]}
    """
)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, "gpu-01 gpu-02 gpu-03 gpu-04 cpu-1"),
        ({"hosts": ["cpu-1", "gpu-02"]}, "gpu-02 cpu-1"),
        ({"hosts": ["gpu-[02:03]"]}, "gpu-02 gpu-03"),
        ({"hosts": ["gpu-*"]}, "gpu-01 gpu-02 gpu-03 gpu-04"),
        ({"hosts": ["?pu-?1"]}, "gpu-01"),
        ({"groups": ["west"]}, "gpu-03 gpu-04"),
        ({"groups": ["west", "east"]}, "gpu-01 gpu-02 gpu-03 gpu-04 cpu-1"),
        ({"groups": ["*st"], "hosts": ["*-*1"]}, "gpu-01 cpu-1"),
        ({"groups": ["all-gpu"], "hosts": ["*3"]}, "gpu-03"),
        ({"limit": 2}, "gpu-01 gpu-02"),
        ({"hosts": ["*"], "limit": 1, "groups": ["west"]}, "gpu-03"),
        ({"limit": 99}, "gpu-01 gpu-02 gpu-03 gpu-04 cpu-1"),
        ({"servers": ["main"]}, "cpu-1"),
    ],
)
def test_a_selection_means_these_hosts(asked: dict[str, Any], names: str) -> None:
    assert [host.name for host in select(INVENTORY, **asked)] == names.split()


def test_a_server_is_selected_on_each_host_that_has_it_and_alone() -> None:
    found = select(INVENTORY, servers=["c*"], limit=2)
    assert [(host.name, [s.name for s in host.servers]) for host in found] == [
        ("gpu-01", ["chat", "code"]),
        ("gpu-02", ["chat", "code"]),
    ]
    (only,) = select(INVENTORY, hosts=["gpu-03"], servers=["code"])
    assert [server.name for server in only.servers] == ["code"]


@pytest.mark.parametrize(
    ("asked", "code", "hint"),
    [
        ({"hosts": ["gpu-1"]}, "unknown-host", "gpu-01"),
        ({"hosts": ["gpu-[03:05]"]}, "unknown-host", "gpu-0"),
        ({"hosts": ["x*"]}, "unknown-host", "known here"),
        ({"hosts": ["west"]}, "unknown-host", "west is a group: use --group west"),
        ({"groups": ["cpu-1"]}, "unknown-group", "cpu-1 is a host: use --hosts cpu-1"),
        ({"groups": ["wst"]}, "unknown-group", "did you mean west?"),
        ({"servers": ["chta"]}, "unknown-server", "did you mean chat?"),
        ({"hosts": ["gpu-[4:1]"]}, "bad-pattern", "[1:4]"),
        ({"hosts": ["cpu-1"], "groups": ["west"]}, "nothing-selected", "both"),
        ({"hosts": [""]}, "unknown-host", "known here"),
    ],
)
def test_a_selection_of_nothing_is_refused_with_the_nearest_name(
    asked: dict[str, Any], code: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select(INVENTORY, **asked)
    assert caught.value.code == code
    assert hint in str(caught.value.hint)
