"""Read everything below the root in one go. Changes nothing.

params: root, units {server: paths of the files of its unit}
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from specctl.release.onhost.common import link_target, lock_holder, read_bytes, read_json, unit_digest

PENDING = ("run", "command", "release", "by", "started_at", "journal")


def text(value: Any, default: str | None = None) -> Any:
    """A text as it is; `default` for anything else that somebody may have written there."""
    return value if isinstance(value, str) else default


def exposed(root: str) -> str:
    """Why somebody else could change what lies below the root; "" when nobody could."""
    status = os.stat(root)
    # under sudo, whoever called it is root already
    trusted = {0, os.geteuid(), int(os.environ.get("SUDO_UID") or 0)}
    if status.st_uid not in trusted:
        return f"belongs to user {status.st_uid}"
    return (
        f"can be written by everyone (mode {status.st_mode & 0o7777:04o})" if status.st_mode & 0o002 else ""
    )


def describe_release(folder: str, name: str) -> dict[str, Any]:
    complete = read_json(os.path.join(folder, "COMPLETE"))
    failed = None
    if os.path.exists(os.path.join(folder, "FAILED")):
        failed = read_json(os.path.join(folder, "FAILED"), {})
    dist = read_json(os.path.join(folder, "dist.json"), {})
    at = complete.get("at") if isinstance(complete, dict) else None
    return {
        "id": name,
        "complete": isinstance(complete, dict),
        "failed": text(failed.get("reason"), "marked as failed") if failed is not None else None,
        "version": text(dist.get("version")),
        "completed_at": float(at) if isinstance(at, (int, float)) else 0.0,
    }


def describe_server(root: str, name: str, unit: list[str]) -> dict[str, Any]:
    folder = os.path.join(root, "servers", name)
    goods = read_json(os.path.join(folder, "good.json"), {}).get("goods")
    return {
        "name": name,
        "current": link_target(os.path.join(folder, "current")),
        "goods": [g for g in goods if isinstance(g, dict)] if isinstance(goods, list) else [],
        "unit_sha256": unit_digest({path: read_bytes(path) for path in unit}),
        "secrets": text(read_json(os.path.join(folder, "secrets.json"), {}).get("digest")),
    }


def last_step(journal: str, run: str) -> tuple[str, str | None, bool]:
    """The last action of a run in a journal, and whether its end was written; a cut last line is skipped."""
    step, server, ended = "", None, False
    for line in (read_bytes(journal) or b"").splitlines():
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or record.get("run") != run:
            continue
        if record.get("event") == "start":
            step, server, ended = text(record.get("action"), ""), text(record.get("server")), False
        elif record.get("event") == "end":
            ended = True
    return step, server, ended


def describe_pending(root: str) -> dict[str, Any] | None:
    pending = read_json(os.path.join(root, "pending.json"))
    if not isinstance(pending, dict) or not text(pending.get("run")) or not text(pending.get("journal")):
        return None
    pending = {k: text(pending.get(k), "") for k in PENDING}
    step, server, ended = last_step(pending["journal"], pending["run"])
    pending.update(step=step, server=server, ended=ended)
    return pending


def describe_deadman(root: str) -> dict[str, Any] | None:
    for state in ("armed", "firing", "fired", "disarmed"):
        found = read_json(os.path.join(root, "deadman", state + ".json"))
        if isinstance(found, dict):
            return {
                "run": text(found.get("run"), ""),
                "state": state,
                "outcome": text(found.get("outcome"), ""),
            }
    return None


def listing(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def main(params: dict[str, Any]) -> dict[str, Any]:
    root = params["root"]
    units = params["units"]
    if not os.path.isdir(root):
        return {"exists": False, "servers": [describe_server(root, n, u) for n, u in sorted(units.items())]}
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "the root cannot be read by this user", root)
    releases = os.path.join(root, "releases")
    names = sorted(set(listing(os.path.join(root, "servers"))) | set(units))
    wheels = os.path.join(root, "wheels")
    return {
        "exists": True,
        "exposed": exposed(root),
        "salt": read_json(os.path.join(root, "salt.json"), {}).get("salt"),
        "releases": [
            describe_release(os.path.join(releases, n), n)
            for n in listing(releases)
            if not n.startswith(".") and os.path.isdir(os.path.join(releases, n))
        ],
        "servers": [describe_server(root, n, units.get(n, [])) for n in names],
        "lock": lock_holder(os.path.join(root, "lock")),
        "pending": describe_pending(root),
        "deadman": describe_deadman(root),
        "tools": listing(os.path.join(root, "bin")),
        "supervisor": os.access(os.path.join(root, "supervisor", "venv", "bin", "supervisord"), os.X_OK),
        "wheels": {
            n[: -len(".sha256")]: (read_bytes(os.path.join(wheels, n)) or b"").decode().strip()
            for n in listing(wheels)
            if n.endswith(".whl.sha256") and os.path.exists(os.path.join(wheels, n[: -len(".sha256")]))
        },
    }
