"""What must hold on a host after a fault, as sentences about what does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .looking import version_of

Seen = Mapping[str, Any]


def serving(seen: Seen, old: str, new: str) -> list[str]:
    """The old release serves, or the new one proven; and it serves once."""
    wrong = []
    version, goods = seen["version"], seen["goods"]
    if version not in (old, new):
        wrong.append(f"serves {version or 'nothing'}, neither {old} nor {new}")
    elif version == new != old and version_of(goods[-1][0]) != new:
        wrong.append(f"serves {new}, which has not passed")
    if version_of(seen["current"]) != version:
        wrong.append(f"current points to {seen['current']}, {version or 'nothing'} serves")
    return wrong + single(seen)


def single(seen: Seen) -> list[str]:
    """One server, one listener."""
    wrong = []
    if len(seen["processes"]) != 1:
        wrong.append(f"{len(seen['processes'])} server processes: {seen['processes']}")
    if len(seen["listeners"]) != 1:
        wrong.append(f"{len(seen['listeners'])} listeners: {seen['listeners']}")
    return wrong


def settled(seen: Seen) -> bool:
    """Nobody on the host is about to change anything: no undo is armed by a lost run, none is at work."""
    return seen["deadman"]["armed"] is None and seen["deadman"]["firing"] is None


def told(status: Seen | None, code: int, seen: Seen) -> list[str]:
    """`status` says what is there: the release, whether it runs, the lock and the run without an end."""
    if status is None:
        return [f"status ended with {code} and no document of the host"]
    wrong = []
    (server,) = status["servers"]
    if code not in (0, 3):
        wrong.append(f"status ended with {code}")
    if server["release"] != seen["current"]:
        wrong.append(f"status says {server['release']}, current points to {seen['current']}")
    if (server["process"] == "running") != bool(seen["processes"]):
        wrong.append(f"status says {server['process']}, processes are {seen['processes']}")
    if (status["lock"] is None) != (seen["lock"] is None):
        wrong.append(f"status says lock {status['lock']}, there is {seen['lock']}")
    if seen["lock"] is not None and not all(seen["lock"].get(k) for k in ("who", "what", "since", "run")):
        wrong.append(f"a lock that nothing explains: {seen['lock']}")
    if (status["unfinished"] is None) != (seen["pending"] is None):
        wrong.append(f"status says unfinished {status['unfinished']}, pending is {seen['pending']}")
    return wrong


def answered(code: int, result: Seen | None, seen: Seen, old: str, new: str) -> list[str]:
    """The exit code of the command that met the fault is true."""
    serves = seen["version"]
    if code == 0 and serves != new:
        return [f"exit 0, and {serves or 'nothing'} serves"]
    if code == 6 and serves != old:
        return [f"exit 6, and {serves or 'nothing'} serves"]
    if code == 7:
        return [f"exit 7: {(result or {}).get('state')}"]
    if code not in (0, 1, 4, 5, 6, 130, -9):
        return [f"exit {code}"]
    return []


def clean(seen: Seen, status: Seen | None, wanted: str, *, deployed: bool) -> list[str]:
    """After the next command all is as if there had been no fault; a deploy also tidies up."""
    wrong = single(seen)
    if seen["version"] != wanted:
        wrong.append(f"serves {seen['version'] or 'nothing'} instead of {wanted}")
    if version_of(seen["current"]) != wanted:
        wrong.append(f"current points to {seen['current']} instead of {wanted}")
    if not seen["goods"] or version_of(seen["goods"][-1][0]) != wanted:
        wrong.append(f"{wanted} is not written down as good")
    if seen["lock"] is not None:
        wrong.append(f"a lock is left: {seen['lock']}")
    if seen["pending"] is not None:
        wrong.append(f"a run without an end is left: {seen['pending']}")
    if not settled(seen):
        wrong.append(f"an undo is left: {seen['deadman']}")
    for name in ("half", "cut", "undo_units", *(["left"] if deployed else [])):
        if seen[name]:
            wrong.append(f"{name}: {seen[name]}")
    if status is not None:
        (server,) = status["servers"]
        if server["state"] != "good" or server["process"] != "running":
            wrong.append(f"status says {server['state']}, {server['process']}")
        if status["lock"] or status["unfinished"]:
            wrong.append(f"status says lock {status['lock']}, unfinished {status['unfinished']}")
    else:
        wrong.append("status has no document of the host")
    return wrong
