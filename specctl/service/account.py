"""Who we are on a host: needed for the paths and sockets of a user manager."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.host.protocol import Host
from specctl.service.errors import ServiceError

_SCRIPT = """
import json, os, pwd
entry = pwd.getpwuid(os.getuid())
linger = os.path.exists("/var/lib/systemd/linger/" + entry.pw_name)
print(json.dumps({"uid": entry.pw_uid, "name": entry.pw_name, "home": entry.pw_dir, "linger": linger}))
"""


@dataclass(frozen=True)
class Account:
    """The login user of a connection."""

    uid: int
    name: str
    home: str
    linger: bool  # its user manager runs without a login


def read_account(host: Host) -> Account:
    """Ask the host.

    Raises:
        ServiceError: the login user has no entry in the host's user database.
    """
    raw = host.script(_SCRIPT, {})
    fields = {"uid": int, "name": str, "home": str}
    if not isinstance(raw, dict) or any(type(raw.get(key)) is not kind for key, kind in fields.items()):
        raise ServiceError("the login user could not be read", context={"host": host.name})
    return Account(raw["uid"], raw["name"], raw["home"], raw.get("linger") is True)
