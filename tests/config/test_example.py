"""hosts/example.yaml is the reference: it loads, has every key, and says something about each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from specctl.config import kinds
from specctl.config.inventory import load_inventory
from specctl.config.model import (
    EnvironmentKind,
    HostConfig,
    ServerConfig,
    SshConfig,
    Supervisor,
    Target,
    Timers,
)
from specctl.config.schema import INVENTORY, keys

PATH = Path(__file__).parents[2] / "hosts" / "example.yaml"
TEXT = PATH.read_text(encoding="utf-8")
LINES = TEXT.splitlines()

Found = dict[int, list[int]]  # id of a schema field -> lines (from 0) where its key stands


def collect(kind: kinds.Kind, node: yaml.Node, found: Found) -> Found:
    """Walk the example beside the schema."""
    if isinstance(kind, (kinds.OneOrMany, kinds.Several)):
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            collect(kind.item, item, found)
    elif isinstance(kind, kinds.Hops) and isinstance(node, yaml.SequenceNode):
        for item in node.value:
            collect(kind.hop, item, found)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(kind, kinds.Named):
                collect(kind.value, value, found)
            elif isinstance(kind, (kinds.Table, kinds.Secret)) and key.value in kind.fields:
                field = kind.fields[key.value]
                found.setdefault(id(field), []).append(key.start_mark.line)
                collect(field.kind, value, found)
    return found


WRITTEN = collect(INVENTORY, yaml.compose(TEXT), {})
KEYS = {id(field): path for path, field in keys(INVENTORY)}  # each field once, under its last path


def commented(line: int) -> bool:
    """A comment on the line itself, or right above it."""
    return " # " in LINES[line] or LINES[line - 1].lstrip().startswith("#")


@pytest.mark.parametrize("field", KEYS, ids=KEYS.values())
def test_every_key_of_the_schema_is_in_the_example_with_a_comment(field: int) -> None:
    lines = WRITTEN.get(field, [])
    assert lines, f"hosts/example.yaml does not show {KEYS[field]}"
    assert any(commented(line) for line in lines), f"hosts/example.yaml says nothing about {KEYS[field]}"


def test_the_example_is_valid_and_without_warnings() -> None:
    inventory = load_inventory(PATH, environ={"HOME": "/home/op"})
    assert inventory.warnings == ()
    assert [host.name for host in inventory.hosts] == [
        *(f"gpu-0{n}" for n in range(1, 5)), "gpu-lab", "pod-1", "rehearsal",
    ]  # fmt: skip
    assert inventory.groups == {
        "production": ("gpu-01", "gpu-02", "gpu-03", "gpu-04"),
        "blackwell": ("gpu-01", "gpu-02", "gpu-03", "gpu-04"),
    }
    hosts = {host.name: host for host in inventory.hosts}
    chat, code, plain = hosts["gpu-03"].servers
    assert hosts["gpu-03"].ssh.address == "192.0.2.13"
    assert chat.env == {"HF_HUB_OFFLINE": "1", "SGLANG_ENABLE_SPEC_V2": "no", "NCCL_P2P_LEVEL": "SYS"}
    assert chat.threshold is not None
    assert (chat.threshold.disable, chat.threshold.resume) == (16, 14)
    assert code.threshold is not None
    assert (code.threshold.disable, code.threshold.resume) == (24, 14)
    assert plain.threshold is None
    assert plain.gpus == (2, 3)
    assert set(chat.secret_args) == {"--api-key", "--admin-api-key"}
    assert chat.secret_file == "/opt/specctl/servers/chat/secret-args.yaml"
    assert hosts["gpu-lab"].environment is EnvironmentKind.ADOPTED
    assert hosts["gpu-lab"].ssh.jumps == ()
    assert hosts["gpu-lab"].wheelhouse is None
    assert hosts["pod-1"].supervisor is Supervisor.SUPERVISOR
    assert hosts["rehearsal"].target is Target.CPU


def default(cls: type, field: str) -> object:
    return cls.__dataclass_fields__[field].default  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("key", "said", "value"),
    [
        ("base", "default 0.5.9", default(HostConfig, "base")),
        ("overlays", "default: these two", default(HostConfig, "overlays")),
        ("connection", "Default ssh", default(HostConfig, "connection")),
        ("root", "default /opt/specctl", default(HostConfig, "root")),
        ("sudo", "default false", default(HostConfig, "sudo")),
        ("supervisor", "systemd (default)", default(HostConfig, "supervisor").value),  # type: ignore[attr-defined]
        ("keep_releases", "default 3", default(HostConfig, "keep_releases")),
        ("environment", "locked (default)", default(HostConfig, "environment").value),  # type: ignore[attr-defined]
        ("python", "default python3", default(HostConfig, "python")),
        ("target", "cuda (default)", default(HostConfig, "target").value),  # type: ignore[attr-defined]
        ("port", "else 22", default(SshConfig, "port")),
        ("host_keys", "strict (default)", default(SshConfig, "host_keys").value),  # type: ignore[attr-defined]
        ("connect_timeout", "default 10", default(SshConfig, "connect_timeout_s")),
        ("command_timeout", "default 120", default(SshConfig, "command_timeout_s")),
        ("bind", "default 127.0.0.1", default(ServerConfig, "bind")),
        ("start", "default 900", Timers().start_s),
        ("hold", "default 20", Timers().hold_s),
        ("stop", "default 120", Timers().stop_s),
    ],
)
def test_a_default_that_the_example_names_is_the_real_one(key: str, said: str, value: object) -> None:
    at = next(n for n, line in enumerate(LINES) if line.lstrip(" -").startswith(f"{key}:"))
    assert said in f"{LINES[at - 1]} {LINES[at]}"
    named = (
        "known-faults, dynamic-disable"
        if key == "overlays"
        else f"{value:g}"
        if isinstance(value, float)
        else value
    )
    shown = f"{LINES[at - 1]} {LINES[at]}" if key == "overlays" else said
    expected = ", ".join(value) if isinstance(value, tuple) else str(named)
    assert expected.lower() in shown.lower()
