"""Change the tree below the root, one named step a call; each may be repeated.

params: root, op, and what the op needs
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from typing import Any

from specctl.release.onhost.common import (
    kept_secret,
    link_target,
    put_secret_back,
    read_bytes,
    read_json,
    remove_quietly,
    sync_folder,
    write_json,
)


def prepare(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Make the folders, and remove what a run left half written that was cut off.

    A salt is made once and stays: digests of secrets are compared under it.
    """
    for name in ("releases", "servers", "bin", "wheels", "cache/uv", "cache/tmp", "deadman"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    os.chmod(os.path.join(root, "cache"), 0o700)  # uv makes its lock files writable by everyone
    for name in params["servers"]:
        os.makedirs(os.path.join(root, "servers", name), exist_ok=True)
    path = os.path.join(root, "salt.json")
    if not read_json(path, {}).get("salt"):
        write_json(path, {"salt": os.urandom(16).hex()}, 0o600)
    sweep(root)
    return {"salt": read_json(path)["salt"]}


HALF_WRITTEN = re.compile(r"\.(?:new|receiving)-([0-9]+)$")


def sweep(root: str) -> None:
    """Remove temporary files whose writer is gone, and broken locks that were not removed to the end."""
    servers, releases = os.path.join(root, "servers"), os.path.join(root, "releases")
    folders = [root, os.path.join(root, "deadman"), os.path.join(root, "bin"), os.path.join(root, "wheels")]
    folders += [os.path.join(top, name) for top in (servers, releases) for name in os.listdir(top)]
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            found = HALF_WRITTEN.search(name)
            if found and not os.path.exists("/proc/" + found.group(1)):
                remove_quietly(os.path.join(folder, name))
    for name in os.listdir(root):
        if name.startswith("lock.old-"):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def open_release(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Begin to fill a release: what an interrupted install left goes; a complete one is not touched."""
    folder = os.path.join(root, "releases", params["release"])
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, "COMPLETE")):
        return {"complete": True}
    if os.path.lexists(os.path.join(folder, "venv")):
        shutil.rmtree(os.path.join(folder, "venv"))
    for name in os.listdir(folder):
        if name.startswith("job-"):
            remove_quietly(os.path.join(folder, name))
    return {"complete": False}


def complete(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write COMPLETE last, after everything below the folder has reached the disk."""
    folder = os.path.join(root, "releases", params["release"])
    if os.path.exists(os.path.join(folder, "venv", ".lock")):
        os.chmod(os.path.join(folder, "venv", ".lock"), 0o644)  # uv's, too
    os.sync()
    write_json(
        os.path.join(folder, "COMPLETE"), {"at": time.time(), "run": params["run"], "by": params["by"]}
    )
    sync_folder(os.path.join(root, "releases"))
    return {}


def fail(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Mark a release as failed; it stays where it is, to be looked at."""
    folder = os.path.join(root, "releases", params["release"])
    if not os.path.isdir(folder):
        return {"marked": False}
    mark = {"at": time.time(), "run": params["run"], "step": params["step"], "reason": params["reason"]}
    write_json(os.path.join(folder, "FAILED"), mark)
    return {"marked": True}


def flip(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Point `current` at a release in one rename: a reader sees the old one or the new one, never none."""
    current = os.path.join(root, "servers", params["server"], "current")
    if params["release"] is None:
        remove_quietly(current)
        sync_folder(os.path.dirname(current))
        return {"current": None}
    if params["need_complete"] and not os.path.exists(
        os.path.join(root, "releases", params["release"], "COMPLETE")
    ):
        raise RuntimeError(f"release {params['release']} is not complete")
    if link_target(current) == params["release"]:
        return {"current": params["release"]}  # also where nothing can be written
    wanted = os.path.join("..", "..", "releases", params["release"])
    temporary = f"{current}.new-{os.getpid()}"
    remove_quietly(temporary)
    os.symlink(wanted, temporary)
    os.replace(temporary, current)
    sync_folder(os.path.dirname(current))
    return {"current": link_target(current)}


def secret_names(params: dict[str, Any]) -> list[str]:
    return [str(path) for path in params["files"]]


def keep_secrets(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Copy the secret files aside (mode 0600) under the digest they go with, so that an undo finds them."""
    folder = os.path.join(root, "servers", params["server"])
    digest = read_json(os.path.join(folder, "secrets.json"), {}).get("digest")
    kept = os.path.join(folder, f"secrets-{digest}.json")
    if digest and digest != params["digest"] and not os.path.exists(kept):
        files = {path: kept_secret(path) for path in secret_names(params)}
        write_json(kept, {path: found for path, found in files.items() if found is not None}, 0o600)
    return {"digest": digest}


def note_secrets(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write down which secrets the files hold, as a salted digest, and give the files to who reads them."""
    for path in params["remove"]:
        remove_quietly(path)
    if params["owner"]:
        for path in params["own"]:
            shutil.chown(path, user=params["owner"])
    write_json(
        os.path.join(root, "servers", params["server"], "secrets.json"), {"digest": params["digest"]}, 0o600
    )
    return {}


def restore_secrets(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Put the secret files of an earlier digest back; without one, remove the files."""
    folder = os.path.join(root, "servers", params["server"])
    digest = params["digest"]
    if digest == read_json(os.path.join(folder, "secrets.json"), {}).get("digest"):
        return {}
    files = read_json(os.path.join(folder, f"secrets-{digest}.json"), {}) if digest else {}
    for path in set(secret_names(params)) | set(files):
        if path in files:
            put_secret_back(path, files[path])
        else:
            remove_quietly(path)
    write_json(os.path.join(folder, "secrets.json"), {"digest": digest}, 0o600)
    return {}


def goods(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """The stacks of good states as they are, and the digest of the secrets in use."""
    found = {}
    for server in params["servers"]:
        folder = os.path.join(root, "servers", server)
        found[server] = {
            "goods": read_json(os.path.join(folder, "good.json"), {}).get("goods", []),
            "secrets": read_json(os.path.join(folder, "secrets.json"), {}).get("digest"),
        }
    return found


def good(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Replace the stacks of good states; what they were stays beside them until the next time."""
    for server, stack in params["goods"].items():
        path = os.path.join(root, "servers", server, "good.json")
        old = read_json(path, {})
        before = old.get("before", []) if old.get("run") == params["run"] else old.get("goods", [])
        write_json(path, {"goods": stack, "before": before, "run": params["run"]})
    for release in params["clear_failed"]:
        remove_quietly(os.path.join(root, "releases", release, "FAILED"))
    return {}


def ungood(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Take back what `good` wrote in this run."""
    for server in params["servers"]:
        path = os.path.join(root, "servers", server, "good.json")
        old = read_json(path, {})
        if old.get("run") == params["run"]:
            write_json(path, {"goods": old.get("before", [])})
    return {}


def forget_secrets(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Remove secrets that were kept for a way back which is no longer needed."""
    for server in params["servers"]:
        folder = os.path.join(root, "servers", server)
        for name in os.listdir(folder):
            if name.startswith("secrets-"):
                remove_quietly(os.path.join(folder, name))
    return {}


def remove_releases(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Remove release folders; never what any `current` points to, whatever the caller believes.

    Each is renamed first: half a release under its own name could be taken for a whole one.
    """
    releases = os.path.join(root, "releases")
    servers = os.path.join(root, "servers")
    live = {
        os.path.realpath(os.path.join(servers, name, "current"))
        for name in (os.listdir(servers) if os.path.isdir(servers) else [])
    }
    removed, refused = [], []
    for name in params["releases"]:
        folder = os.path.join(releases, name)
        if os.path.realpath(folder) in live:
            refused.append(name)
        elif os.path.isdir(folder):
            doomed = os.path.join(releases, f".removing-{name}")
            shutil.rmtree(doomed, ignore_errors=True)
            os.rename(folder, doomed)
            removed.append(name)
    for name in os.listdir(releases) if os.path.isdir(releases) else []:
        if name.startswith(".removing-"):
            shutil.rmtree(os.path.join(releases, name), onerror=make_writable)
    if removed:
        sweep_cache(os.path.join(root, "cache", "uv"))
    return {"removed": removed, "refused": refused}


def sweep_cache(cache: str) -> None:
    """Drop unpacked packages of uv's cache that no environment is linked to: they are what fills the disk."""
    for bucket in os.listdir(cache) if os.path.isdir(cache) else []:
        if not bucket.startswith("archive-"):
            continue
        for name in os.listdir(os.path.join(cache, bucket)):
            archive = os.path.join(cache, bucket, name)
            if os.path.isdir(archive) and not has_links(archive):
                shutil.rmtree(archive, onerror=make_writable)


def has_links(folder: str) -> bool:
    for top, _, names in os.walk(folder):
        for name in names:
            if os.lstat(os.path.join(top, name)).st_nlink > 1:
                return True
    return False


def make_writable(again: Callable[..., Any], path: str, _info: object) -> None:
    """A package may have made its folders read-only."""
    os.chmod(os.path.dirname(path), stat.S_IRWXU)
    os.chmod(path, stat.S_IRWXU)
    again(path)


def remove_wheels(root: str, _params: dict[str, Any]) -> dict[str, Any]:
    """Drop pushed wheels that no release's lock names any more; supervisor's, which no lock names, stays."""
    releases, wheels = os.path.join(root, "releases"), os.path.join(root, "wheels")
    locks = b"".join(
        read_bytes(os.path.join(releases, name, "lock.txt")) or b""
        for name in (os.listdir(releases) if os.path.isdir(releases) else [])
    )
    removed = []
    for name in os.listdir(wheels) if os.path.isdir(wheels) else []:
        if not name.endswith(".sha256") or name.startswith("supervisor-"):
            continue
        digest = read_bytes(os.path.join(wheels, name)) or b""
        if digest.strip() not in locks:
            remove_quietly(os.path.join(wheels, name[: -len(".sha256")]))
            remove_quietly(os.path.join(wheels, name))
            removed.append(name[: -len(".sha256")])
    return {"removed": removed}


OPS = {
    "prepare": prepare,
    "open_release": open_release,
    "complete": complete,
    "fail": fail,
    "flip": flip,
    "keep_secrets": keep_secrets,
    "note_secrets": note_secrets,
    "restore_secrets": restore_secrets,
    "goods": goods,
    "good": good,
    "ungood": ungood,
    "forget_secrets": forget_secrets,
    "remove_releases": remove_releases,
    "remove_wheels": remove_wheels,
}


def main(params: dict[str, Any]) -> dict[str, Any]:
    return OPS[params["op"]](params["root"], params)
