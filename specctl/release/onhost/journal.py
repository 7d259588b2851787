"""Append to a release's journal, keep the pointer to the unfinished run, renew the lease: one trip.

params: root, and any of: journal and records [..], pending {..} (set it), finished (run whose pointer goes
away), entry {..} (for the host's history), lease {run, seconds, step}
"""

from __future__ import annotations

import json
import os
from typing import Any

from specctl.release.onhost.common import (
    read_json,
    remove_quietly,
    renew_lease,
    sync_folder,
    write_atomically,
    write_json,
)

LONGEST_HISTORY = 3 << 20  # bytes: some ten thousand runs


def append(path: str, records: list[dict[str, Any]]) -> None:
    """Add whole lines and fsync; a line that a crash cut is ended first, so that ours stays readable."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab+") as handle:
        if handle.tell() > 0:
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write("".join(json.dumps(r, sort_keys=True) + "\n" for r in records).encode())
        handle.flush()
        os.fsync(handle.fileno())
    sync_folder(os.path.dirname(path))


def forget_oldest(path: str) -> None:
    """Keep the newest half of a history that has become too long to be read as a whole."""
    if os.path.getsize(path) <= LONGEST_HISTORY:
        return
    with open(path, "rb") as handle:
        handle.seek(-LONGEST_HISTORY // 2, os.SEEK_END)
        handle.readline()  # the rest of a line
        newest = handle.read()
    write_atomically(path, newest)


def main(params: dict[str, Any]) -> dict[str, Any]:
    pending = os.path.join(params["root"], "pending.json")
    lease = params.get("lease")
    # first the promise: a journal on a full disk must not make the operator seem lost
    answer = renew_lease(params["root"], lease["run"], lease["seconds"], lease["step"]) if lease else {}
    if params.get("records"):
        append(params["journal"], params["records"])
    if params.get("pending"):
        write_json(pending, params["pending"])
    if params.get("entry"):
        history = os.path.join(params["root"], "history.jsonl")
        append(history, [params["entry"]])
        forget_oldest(history)
    finished = params.get("finished")
    if finished and (read_json(pending, {}) or {}).get("run") == finished:
        remove_quietly(pending)
    return answer
