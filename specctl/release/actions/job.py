"""A long command on the host that survives a lost link: started once, looked at until it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specctl.base.process import untrusted
from specctl.host.errors import Unreachable
from specctl.release.context import Context
from specctl.release.errors import InstallFailed, Interrupted
from specctl.release.remote import RUN_VARIABLE

POLL_S = 1.0
DEADLINE_S = 3600.0
LOST_LINKS = 5  # lost links in a row before a job counts as unreachable


def run_job(
    ctx: Context,
    release: str,
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    what: str,
    deadline_s: float = DEADLINE_S,
) -> None:
    """Run argv on the host in the release's folder, to its end.

    Raises:
        InstallFailed: it ended with another code than 0, or not at all; with the end of its output.
        Interrupted: the operator asked to stop; the command was ended first.
        Unreachable: the link stayed lost. The command goes on; the next run finds it.
    """
    folder = ctx.layout.release(release).folder
    base: dict[str, Any] = {"folder": folder, "name": name, "tail": 15}
    begin = ctx.clock.monotonic()
    start: dict[str, Any] = {
        "argv": list(argv),
        "env": {**(env or {}), RUN_VARIABLE: ctx.remote.run},
        "run": ctx.remote.run,
    }
    seen = ctx.remote.program("job", op="start", **base, **start)
    lost = 0
    while seen["state"] == "running":
        if ctx.clock.monotonic() - begin > deadline_s:
            ctx.remote.program("job", op="stop", **base)
            raise _failed(ctx, what, argv, seen, f"did not end within {deadline_s:.0f} s", folder, name)
        try:
            ctx.wait(POLL_S)
            seen = ctx.remote.program("job", op="look", **base)
            lost = 0
        except Interrupted:
            ctx.remote.program("job", op="stop", **base)
            raise
        except Unreachable:
            lost += 1
            if lost >= LOST_LINKS:
                raise
            ctx.clock.sleep(2.0 * lost)
        if seen["tail"]:
            ctx.progress(str(seen["tail"][-1])[:100])
    if seen["rc"] != 0:
        how = f"ended with exit code {seen['rc']}" if seen["rc"] is not None else "was ended from outside"
        raise _failed(ctx, what, argv, seen, how, folder, name)


def _failed(
    ctx: Context, what: str, argv: Sequence[str], seen: Mapping[str, object], how: str, folder: str, name: str
) -> InstallFailed:
    tail = seen["tail"]
    lines = [str(line) for line in tail] if isinstance(tail, list) else []
    return InstallFailed(
        f"{what} on {ctx.host.name} {how}",
        context={
            "host": ctx.host.name,
            "command": " ".join(argv),
            "output": "\n".join(lines) or "(none)",
            "log": f"{folder}/job-{name}.log",
        },
        hint=hint_for("\n".join(lines)),
    )


def hint_for(text: str) -> str:
    """What to do about the usual causes; the command's own words are in the context either way."""
    low = text.lower()
    if "no space left" in low or "enospc" in low:
        return "make room on the host: specctl prune, then deploy again"
    if "hash" in low and "mismatch" in low:
        return "a package is not what the lock says: build the distribution again, or mend the wheelhouse"
    if untrusted(text):
        return (
            "the host does not trust its package index, or a proxy before it: name the CA's certificate in "
            "SSL_CERT_FILE (uv) or PIP_CERT (pip) there, or set `wheelhouse` in the inventory"
        )
    if "+cpu" in low and ("no version of" in low or "no matching distribution" in low):
        return (
            "the CPU build of torch is on an index of its own, which the lock does not name: write "
            '`torch-backend = "cpu"` below [pip] in /etc/uv/uv.toml there, or set `wheelhouse`'
        )
    if any(word in low for word in ("dns error", "failed to fetch", "connection refused", "network")):
        return "the host reaches no package index: set `wheelhouse` in the inventory and push from here"
    if "no-index" in low or "not found in the provided" in low or "no matching distribution" in low:
        return "the wheelhouse lacks a file that the lock names; specctl doctor lists them"
    return "nothing that serves was touched; read the log on the host, then deploy again"
