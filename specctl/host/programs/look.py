"""Look at one file.

params: path, want ("sha256": is it a regular file of this size, hash and mode? "bytes": its content), and
        size, sha256, mode or limit
answer: {"same": bool} or {"data": base64, or null when there is no such file} or {"errno", "reason"}
"""

import base64
import errno
import hashlib
import json
import os
import stat
from typing import Any

params = globals()["params"]


def same(path: str) -> bool:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size != params["size"]:
        return False
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != params["sha256"]:
        return False
    if stat.S_IMODE(status.st_mode) != params["mode"]:
        os.chmod(path, params["mode"])
    return True


def look(path: str) -> "dict[str, Any]":
    wants_bytes = params["want"] == "bytes"
    try:
        if not wants_bytes:
            return {"same": same(path)}
        with open(path, "rb") as handle:
            return {"data": base64.b64encode(handle.read(params["limit"])).decode()}
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return {"data": None} if wants_bytes else {"same": False}
        return {"errno": error.errno, "reason": str(error)}


print(json.dumps(look(params["path"])))
