"""Short ways to a HostConfig or an Inventory, for tests of any part that needs one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specctl.config.model import HostConfig, Inventory, ServerConfig, SshConfig, ThresholdPolicy

EAGLE3_ARGS = (
    "--speculative-algorithm",
    "EAGLE3",
    "--speculative-draft-model-path",
    "/models/draft",
    "--speculative-num-steps",
    "3",
    "--speculative-eagle-topk",
    "1",
    "--speculative-num-draft-tokens",
    "4",
)


def make_server(name: str = "main", **changes: Any) -> ServerConfig:
    """An EAGLE3 server on GPU 0, port 30000, speculation off above 16; `changes` replace fields."""
    fields: dict[str, Any] = {
        "name": name,
        "model": "/models/target",
        "port": 30000,
        "gpus": (0,),
        "args": EAGLE3_ARGS,
        "threshold": ThresholdPolicy(disable=16, resume=14, resume_steps=4, draft_sync="lazy"),
    }
    return ServerConfig(**{**fields, **changes})


def make_host(name: str = "gpu-01", *servers: ServerConfig, **changes: Any) -> HostConfig:
    """A host reached over ssh at `<name>.test`, with `servers` or one `make_server()`."""
    fields: dict[str, Any] = {
        "name": name,
        "ssh": SshConfig(address=f"{name}.test", user="root", explicit=frozenset({"user"})),
        "servers": servers or (make_server(),),
    }
    return HostConfig(**{**fields, **changes})


def make_inventory(*hosts: HostConfig, **groups: tuple[str, ...]) -> Inventory:
    """An inventory of `hosts`, or of one `make_host()`."""
    return Inventory(path=Path("hosts.yaml"), hosts=hosts or (make_host(),), groups=groups)
