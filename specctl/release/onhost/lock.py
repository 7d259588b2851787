"""Take, look at and give back the host's lock.

The lock is the folder <root>/lock, made by mkdir, which only one can win. A holder promises when it will be
heard from next (a lease, on the host's own clock since boot). A lock is stale when that time has passed AND
nothing of the holder's run lives: no process on this host, and none on the operator's machine as far as the
caller could look (`holder_gone`).

params: root, op (take | release | break | look), info {..}, lease_s, step, holder_gone [runs],
        holder (for break: whose)
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from typing import Any

from specctl.release.onhost.common import boot_id, boot_seconds, lock_holder, renew_lease, write_json


def take(folder: str, params: dict[str, Any]) -> dict[str, Any]:
    broke = None
    held = lock_holder(folder)
    if held is not None:
        if held["run"] and held["run"] == params["info"]["run"]:
            renew_lease(params["root"], held["run"], params["lease_s"], params["step"])
            return {"taken": True, "broke": None}
        stale = held["overdue_s"] > 0 and not held["processes"] and held["run"] in params["holder_gone"]
        if not stale:
            return {"taken": False, "held": held}
        discard(folder)
        broke = held
    try:
        os.mkdir(folder)
    except FileExistsError:
        return {"taken": False, "held": lock_holder(folder)}
    write_json(os.path.join(folder, "taken.json"), {"boot": boot_id(), "at": boot_seconds()})
    write_json(os.path.join(folder, "info.json"), params["info"])
    renew_lease(params["root"], params["info"]["run"], params["lease_s"], params["step"])
    return {"taken": True, "broke": broke}


def discard(folder: str) -> None:
    """Rename first, so that the lock is gone at one moment, whatever becomes of the rest."""
    old = f"{folder}.old-{uuid.uuid4().hex[:8]}"
    os.rename(folder, old)
    shutil.rmtree(old, ignore_errors=True)


def main(params: dict[str, Any]) -> dict[str, Any]:
    root, op = params["root"], params["op"]
    folder = os.path.join(root, "lock")
    if op == "look":
        return {"held": lock_holder(folder)}
    try:
        if op == "take":
            os.makedirs(root, exist_ok=True)
        guard = os.open(os.path.join(root, ".lock-guard"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        if op == "take":
            return {"taken": False, "denied": f"{os.strerror(exc.errno or errno.EIO)}: {root}"}
        raise
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if op == "take":
            try:
                return take(folder, params)
            except OSError as exc:
                return {
                    "taken": False,
                    "denied": f"{os.strerror(exc.errno or errno.EIO)}: {exc.filename or folder}",
                }
        held = lock_holder(folder)
        mine = held is not None and held["run"] == params["info"]["run"]
        if held is not None and (mine or (op == "break" and held["run"] == params["holder"])):
            discard(folder)
            return {"released": True, "held": held}
        return {"released": False, "held": held}
    finally:
        os.close(guard)
