"""An adopted environment: prove that it stays as it is, and lay the thin one over it.

params: op (fingerprint | link), adopt, folders (its package folders), and for link: venv, version
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from specctl.release.onhost.common import write_atomically

# Line by line at start-up of the thin environment. addsitedir also reads the path files of the adopted
# one (editable checkouts among them); it appends, so what is installed in the thin one is found first.
LINK = "import site; site.addsitedir({!r})\n"
PTH = "zz_adopted.pth"  # last in the order in which path files are read


def fingerprint(params: dict[str, Any]) -> dict[str, Any]:
    """A digest over name, mode, size, inode and modification time of everything in the environment.

    An environment with a folder of its own (a venv, conda) counts whole; of a system prefix like /usr only
    the package folders do.
    """
    adopt = os.path.realpath(params["adopt"])
    own = any(os.path.exists(os.path.join(adopt, mark)) for mark in ("pyvenv.cfg", "conda-meta"))
    digest = hashlib.sha256()
    count = 0
    for folder in [adopt] if own else sorted(params["folders"]):
        for line in lines(folder):
            digest.update(line.encode("utf-8", "surrogateescape"))
            count += 1
    return {"digest": digest.hexdigest(), "entries": count}


def lines(folder: str) -> Iterator[str]:
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names + folders):
            path = os.path.join(top, name)
            info = os.lstat(path)
            target = os.readlink(path) if os.path.islink(path) else ""
            # a folder's own time changes with any entry that came and went: the entries say enough
            real_folder = os.path.isdir(path) and not target
            size, changed = (0, 0) if real_folder else (info.st_size, info.st_mtime_ns)
            yield f"{path}\0{info.st_mode}\0{size}\0{info.st_ino}\0{changed}\0{target}\n"


def link(params: dict[str, Any]) -> dict[str, Any]:
    """Write the path file into the thin environment's own site-packages."""
    name = "python{}.{}".format(*params["version"])
    target = os.path.join(params["venv"], "lib", name, "site-packages")
    write_atomically(os.path.join(target, PTH), "".join(LINK.format(path) for path in params["folders"]))
    return {"path": os.path.join(target, PTH)}


def main(params: dict[str, Any]) -> dict[str, Any]:
    if params["op"] == "link":
        return link(params)
    return fingerprint(params)
