"""The full list of what a base needs, with hashes, as its release day had it. uv resolves; this says how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from specctl.base.errors import LockFailed, RecordError
from specctl.base.model import Base, Lock
from specctl.base.process import Run, run, untrusted, uv_binary

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def uv_compile_argv(uv: str, lock: Lock, source: Path, out: Path) -> list[str]:
    """The resolver's command line.

    Nothing of this machine gets into the result: no index addresses, no folders, no command line. The base
    itself is left out, because hosts install the distribution in its place.
    """
    argv = [
        *(uv, "pip", "compile", str(source), "--output-file", str(out)),
        *("--quiet", "--generate-hashes", "--no-header", "--no-annotate"),
        *("--no-emit-index-url", "--no-emit-find-links", "--no-emit-package", "sglang"),
        *("--no-python-downloads", "--python-version", lock.python, "--exclude-newer", lock.as_of),
    ]
    argv += ["--python-platform", lock.platform] if lock.platform else ["--universal"]
    for package, time in sorted(lock.later.items()):
        argv += ["--exclude-newer-package", f"{package}={time}"]
    return argv


def lock_of(base: Base, target: str) -> Lock:
    """How the lock of one target is made. Raises RecordError when the base has no such target."""
    if target not in base.locks:
        raise RecordError(
            f"base {base.name} has no target {target!r}",
            hint=f"targets: {', '.join(base.locks) or 'none'}",
        )
    return base.locks[target]


def resolve(base: Base, target: str, workspace: Path, *, runner: Run = run) -> str:
    """Resolve a lock anew, with the package index that uv is configured for.

    Args:
        workspace: a folder for temporary files.

    Returns:
        The lock's text, header included.

    Raises:
        RecordError: no such target.
        LockFailed: uv found no resolution, or could not reach its index.
    """
    lock = lock_of(base, target)
    source, out = workspace / "needs.in", workspace / "lock.txt"
    source.write_text("".join(f"{line}\n" for line in lock.requires), encoding="utf-8")
    done = runner(uv_compile_argv(uv_binary(), lock, source, out), cwd=workspace)
    if done.exit_code or not out.is_file():
        raise LockFailed(
            f"uv cannot resolve what SGLang {base.version} needs for {target}",
            context={"uv": done.tail or "said nothing"},
            hint=_hint(done.tail, target),
        )
    return header(base, lock) + out.read_text(encoding="utf-8")


def header(base: Base, lock: Lock) -> str:
    """The comment on top of a lock."""
    where = f"CPython {lock.python}, {lock.platform}" if lock.platform else f"CPython {lock.python} or newer"
    lines = [
        f"What SGLang {base.version} needs for the target {lock.target}, with hashes, without sglang itself.",
        f"Resolved as of {lock.as_of} for {where}: {lock.note}.",
        f"Made by: specctl base lock {base.name} --target {lock.target}",
    ]
    if lock.later:
        lines.insert(2, f"Younger than that: {', '.join(sorted(lock.later))}.")
    return "".join(f"# {line}\n" for line in lines)


def shipped_lock(base: Base, target: str) -> str | None:
    """The text of the lock that came with specctl; None when there is none."""
    name = lock_of(base, target).file
    if name is None:
        return None
    try:
        return resources.files("specctl.base").joinpath("locks").joinpath(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecordError(f"the lock {name} of base {base.name} did not come with specctl") from None


def pins_of(text: str) -> Mapping[str, str]:
    """Package -> version of every pin in a lock; of a package pinned per Python, the last one."""
    return {name.lower(): version for name, version in _PIN.findall(text)}


def _hint(tail: str, target: str) -> str:
    if "cpu" in target and "torch" in tail:
        return "uv must find the CPU build of torch: set UV_TORCH_BACKEND=cpu or UV_FIND_LINKS=FOLDER"
    if untrusted(tail):
        return "uv does not trust its package index, or a proxy before it: set SSL_CERT_FILE=FILE to the CA's"
    if re.search(r"dns|connect|network|timed out", tail, re.IGNORECASE):
        return "uv cannot reach its package index: check the network and uv's configuration"
    return "what uv said is above"
