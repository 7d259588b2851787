"""What specctl remembers about one server on its host: `<root>/servers/<name>/state.json`.

Written by `deploy` and `rollback` around a restart, and by `specctl start|restart`; read by `verify`,
`status` and the plan. It holds nothing secret.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from specctl.host.protocol import Host

SCHEMA = 1


@dataclass(frozen=True)
class ServerState:
    """The last restart that specctl asked for.

    `cursor` was taken while the old process was gone and the new one not yet started, so every line of the
    running invocation lies after it.
    """

    server: str
    release: str  # id of the release that `current` points to
    distribution: str  # 0.5.9+specctl.1
    unit: str  # as the supervisor knows it, e.g. specctl-main.service
    cursor: str = ""  # Cursor.value; "": none was taken
    invocation: str = ""  # of the process that this restart started; "": not known (yet)
    restarted_at: str = ""  # ISO 8601, UTC
    previous: str | None = None  # release that served before, the rollback target
    proven: bool = False  # the gate passed for this release
    schema: int = SCHEMA

    def to_json(self) -> bytes:
        """One JSON document, keys sorted."""
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> ServerState | None:
        """Read it back; None when it is not a state of this schema (unknown keys are left out)."""
        try:
            raw = json.loads(data)
            known = {f.name for f in fields(cls)}
            state = cls(**{k: v for k, v in raw.items() if k in known})
        except (ValueError, TypeError, AttributeError):
            return None
        if state.schema != SCHEMA or not all(
            isinstance(v, str) for v in (state.server, state.release, state.cursor, state.invocation)
        ):
            return None
        return state


def state_path(root: str, server: str) -> str:
    """Where the state of one server lies on its host."""
    return f"{root.rstrip('/')}/servers/{server}/state.json"


def read_state(host: Host, root: str, server: str, *, sudo: bool = False) -> ServerState | None:
    """The remembered state; None when there is none or it cannot be read as one."""
    data = host.read(state_path(root, server), limit=1 << 16, sudo=sudo)
    return None if data is None else ServerState.from_json(data)


def write_state(host: Host, root: str, state: ServerState, *, sudo: bool = False) -> None:
    """Replace the remembered state atomically."""
    host.write(state.to_json(), state_path(root, state.server), sudo=sudo)
