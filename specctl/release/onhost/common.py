"""Helpers that every program on the host may use; sent in front of each (so: no other import of specctl)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from typing import Any


def read_json(path: str, default: Any = None) -> Any:
    """A JSON file's value; `default` when there is none or it was cut, or where it should be an object."""
    try:
        with open(path, encoding="utf-8") as handle:
            value = json.load(handle)
    except (OSError, ValueError, RecursionError):
        return default
    return default if isinstance(default, dict) and not isinstance(value, dict) else value


def read_bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return None


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: str, data: bytes | str, mode: int = 0o644, owner: int | None = None) -> None:
    """Temporary name in the same folder, fsync, rename, fsync of the folder. `owner`: given to this user."""
    if isinstance(data, str):
        data = data.encode()
    temporary = f"{path}.new-{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as handle:
            os.fchmod(handle.fileno(), mode)  # before there is anything to read
            if owner is not None and owner != os.geteuid():
                os.fchown(handle.fileno(), owner, -1)
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        remove_quietly(temporary)
        raise
    sync_folder(os.path.dirname(path))


def kept_secret(path: str) -> dict[str, Any] | None:
    """A secret file as it is kept for a way back: its text, and who reads it. None when there is no file."""
    try:
        with open(path, "rb") as handle:
            return {"text": handle.read().decode("latin-1"), "owner": os.fstat(handle.fileno()).st_uid}
    except OSError:
        return None


def put_secret_back(path: str, kept: Any) -> None:
    """Undo of `kept_secret`; an earlier specctl kept the text alone."""
    text, owner = (kept, None) if isinstance(kept, str) else (kept["text"], kept["owner"])
    write_atomically(path, text.encode("latin-1"), 0o600, owner)


def write_json(path: str, value: object, mode: int = 0o644) -> None:
    write_atomically(path, json.dumps(value, sort_keys=True) + "\n", mode)


def remove_quietly(path: str) -> bool:
    try:
        os.unlink(path)
        return True
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise


def link_target(path: str) -> str | None:
    """The last part of a symbolic link's target; None when there is no link."""
    try:
        return os.path.basename(os.readlink(path).rstrip("/"))
    except OSError:
        return None


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def unit_digest(files: dict[str, bytes | None]) -> str | None:
    """One digest over all files of a unit; None when one is missing, or when there are none."""
    if not files or None in files.values():
        return None
    pairs = [[path, hashlib.sha256(data or b"").hexdigest()] for path, data in sorted(files.items())]
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def boot_id() -> str:
    data = read_bytes("/proc/sys/kernel/random/boot_id")
    return data.decode().strip() if data else ""


def boot_seconds() -> float:
    """Seconds since the host started: a clock that nobody sets."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def processes_of_run(run: str) -> list[int]:
    """Process ids on this host, other than ours, that carry SPECCTL_RUN=<run>."""
    wanted = b"SPECCTL_RUN=" + run.encode()
    mine = {os.getpid(), os.getppid()}
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not name.isdigit() or int(name) in mine:
            continue
        environ = read_bytes(f"/proc/{name}/environ")
        if environ and wanted in environ.split(b"\0"):
            found.append(int(name))
    return found


def lock_holder(folder: str) -> dict[str, Any] | None:
    """Who holds the lock, since when, how long it is overdue, and what of its run lives here; None: nobody.

    Seconds are of this host's clock since boot, which nobody sets.
    """
    if not os.path.isdir(folder):
        return None
    unknown = {"who": "unknown", "where": "unknown", "what": "unknown"}
    info: dict[str, Any] = {"run": "", "since": "", "boot": "", "pid": 0, **unknown}
    written = read_json(os.path.join(folder, "info.json"), {})
    info.update({k: written[k] for k in info if type(written.get(k)) is type(info[k])})
    lease = read_json(os.path.join(folder, "lease.json"), {})
    until = lease.get("until")
    if not isinstance(until, (int, float)) or lease.get("boot") != boot_id():
        until = boot_seconds() - 1.0  # no promise, or one from before this host restarted
    taken = read_json(os.path.join(folder, "taken.json"), {})
    at = taken.get("at") if taken.get("boot") == boot_id() else None
    info["age_s"] = boot_seconds() - at if isinstance(at, (int, float)) else None
    info["step"] = str(lease.get("step", ""))
    info["overdue_s"] = boot_seconds() - until
    info["processes"] = processes_of_run(info["run"]) if info["run"] else []
    return dict(info)


def renew_lease(root: str, run: str, seconds: float, step: str) -> dict[str, Any]:
    """The holder's promise to be heard from within `seconds`, when it still is the holder.

    `mine`: whether it is. `undone`: the host's own undo has acted against this run.
    """
    folder = os.path.join(root, "lock")
    held = read_json(os.path.join(folder, "info.json"), {})
    mine = held.get("run") == run
    if mine:
        lease = {"boot": boot_id(), "until": boot_seconds() + seconds, "step": step}
        write_json(os.path.join(folder, "lease.json"), lease)
    undone = any(
        read_json(os.path.join(root, "deadman", state + ".json"), {}).get("run") == run
        for state in ("firing", "fired")
    )
    return {"mine": mine, "undone": undone, "held": None if mine else lock_holder(folder)}
