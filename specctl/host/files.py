"""Why a file on a host could not be written or read: from the errno seen there to an error that helps."""

from __future__ import annotations

import errno

from specctl.host.errors import DiskFull, FileRefused, PermissionRefused, ReadOnly

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM)


def refused(host: str, path: str, verb: str, answer: object, *, root: bool = False) -> FileRefused:
    """The error for a failed answer of the programs `receive` and `look`.

    Args:
        verb: "written" or "read".
        root: it was tried as root.
    """
    seen = answer if isinstance(answer, dict) else {}
    number, mount = seen.get("errno"), seen.get("mount", "?")
    context = {"host": host, "path": path, "cause": str(seen.get("reason", answer))}
    start = f"{path} on {host} could not be {verb}"
    if number in _FULL:
        context["file system"] = f"{mount}: {seen.get('free_bytes', '?')} bytes and {_inodes(seen)} free"
        what = "the quota is used up" if number == errno.EDQUOT else f"no space left on {mount}"
        return DiskFull(
            f"{start}: {what}", context=context, hint="make room there (specctl prune), then repeat"
        )
    if number == errno.EROFS:
        context["file system"] = f"{mount}: mounted with {seen.get('options', '?')}"
        hint = "a disk error may have made it read-only: look at dmesg on the host before remounting"
        return ReadOnly(f"{start}: {mount} is mounted read-only", context=context, hint=hint)
    if number in _DENIED:
        hint = "give the folder to the user of the connection, or set sudo: true for the host"
        if root:
            hint = "not even root may: is it a network file system (root_squash), or immutable (lsattr)?"
        return PermissionRefused(f"{start}: permission denied", context=context, hint=hint)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return FileRefused(f"{start}: its folder does not exist", context=context)
    return FileRefused(start, context=context)


def _inodes(seen: dict[str, object]) -> str:
    return f"{seen.get('free_inodes', '?')} inodes"
