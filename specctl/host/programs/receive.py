"""Receive a file on stdin: temporary name in the same folder, hash, fsync, rename.

While it receives it prints, about once a second, how many bytes are still missing: who sends sees that
something moves, however much lies in buffers between.

params: path, mode, size (bytes), sha256, stall_s (give up when nothing came for so long)
answer: {"state": "written"} or {"state": "failed", "errno": N or null, "reason": text, ...where}
"""

import hashlib
import json
import os
import signal
import sys
import time
from typing import Any

params = globals()["params"]
BLOCK = 1 << 20


def give_up(signum: int, frame: object) -> None:
    raise EOFError(f"nothing came for {params['stall_s']} s")


def sweep(folder: str, prefix: str) -> None:
    """Remove what a receiver left behind that was killed: its process id is part of the name."""
    for name in os.listdir(folder):
        if name.startswith(prefix):
            pid = name[len(prefix) :]
            if pid.isdigit() and not os.path.exists("/proc/" + pid):
                os.unlink(os.path.join(folder, name))


def receive(descriptor: int) -> str:
    """Copy stdin to the file; its sha256."""
    left = params["size"]
    said = time.monotonic()
    digest = hashlib.sha256()
    while left:
        signal.alarm(params["stall_s"])
        block = sys.stdin.buffer.read1(min(BLOCK, left))  # type: ignore[union-attr]
        if not block:
            raise EOFError(f"the sender went away, {left} bytes were missing")
        view = memoryview(block)
        while view:
            view = view[os.write(descriptor, view) :]
        digest.update(block)
        left -= len(block)
        if time.monotonic() - said > 1:
            said = time.monotonic()
            print(left, flush=True)
    signal.alarm(0)
    return digest.hexdigest()


def where(folder: str) -> "dict[str, Any]":
    """The file system of a folder: mount point, options and what is free on it."""
    found: dict[str, Any] = {"mount": "/", "options": ""}
    try:
        free = os.statvfs(folder)
        found.update(free_bytes=free.f_bavail * free.f_frsize, free_inodes=free.f_favail)
        real = os.path.realpath(folder) + "/"
        with open("/proc/self/mounts") as mounts:
            for line in mounts:
                words = line.split()
                point = words[1].replace("\\040", " ").rstrip("/") + "/"
                if real.startswith(point) and len(point) >= len(found["mount"]):
                    found.update(mount=words[1], options=words[3])
    except OSError:
        pass
    return found


def install(path: str) -> "dict[str, Any]":
    folder, name = os.path.split(path)
    prefix = f".{name}.receiving-"
    temporary = os.path.join(folder, prefix + str(os.getpid()))
    try:
        sweep(folder, prefix)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            seen = receive(descriptor)
            if seen != params["sha256"]:
                raise ValueError(f"sha256 is {seen} after the transfer")
            os.fchmod(descriptor, params["mode"])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        parent = os.open(folder, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)
    except (OSError, EOFError, ValueError) as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        failure = {"state": "failed", "errno": getattr(error, "errno", None), "reason": str(error)}
        return {**failure, **where(folder)}
    return {"state": "written"}


signal.signal(signal.SIGALRM, give_up)
for ending in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(ending, lambda signum, frame: sys.exit(1))
print(json.dumps(install(params["path"])))
