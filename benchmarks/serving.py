"""Start the servers of a run, find them again in a later piece, stop them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.crew import Server


class ServerError(Exception):
    """A server did not start or died; the message holds the end of its log."""


@dataclass
class Running:
    """A server that answers. `started_s`: seconds from exec to /health; the log grows while it serves."""

    spec: Server
    port: int
    pid: int
    log: Path
    started_s: float

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def log_size(self) -> int:
        return self.log.stat().st_size

    def log_since(self, offset: int) -> list[str]:
        with self.log.open("rb") as f:
            f.seek(offset)
            return f.read().decode(errors="replace").splitlines()

    async def ask(self, http: aiohttp.ClientSession, path: str, body: object = None) -> Any:
        async with http.request("POST" if body else "GET", self.url + path, json=body) as reply:
            return await reply.json()

    async def state(self, http: aiohttp.ClientSession) -> dict[str, Any]:
        """The first rank's internal state."""
        info = await self.ask(http, "/server_info")
        return dict(info["internal_states"][0])


def command(python: str, spec: Server, port: int) -> list[str]:
    """Argv of one server."""
    listen = ["--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(port + 1)]
    return [python, "-m", "sglang.launch_server", *listen, *spec.args]


class Crew:
    """The servers of one run, side by side on one GPU. `work` tells a later process what still runs."""

    def __init__(
        self, work: Path, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> None:
        self.work, self.python, self.env = work, python, dict(env or {})
        self.members: dict[str, Running] = {}
        work.mkdir(parents=True, exist_ok=True)

    def spawn(self, spec: Server, port: int) -> subprocess.Popen[bytes]:
        log = self.work / f"{spec.name}.log"
        if log.exists():  # the same name under another setup
            log.rename(self.work / f"{spec.name}-{log.stat().st_mtime:.0f}.log")
        with log.open("wb") as f:
            return subprocess.Popen(
                command(self.python, spec, port),
                env={**os.environ, **self.env, **spec.env},
                stdout=f,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def start(self, specs: Sequence[Server], limit_s: float, first_port: int = 30100) -> dict[str, str]:
        """Start what does not run yet, all at once, and stop what is not asked for.

        Returns what went wrong, by server; the ones without an entry answer.
        """
        self.find(specs)
        taken = {m.port for m in self.members.values()}
        ports = (p for p in range(first_port, first_port + 2000, 20) if p not in taken)
        new = [s for s in specs if s.name not in self.members]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as http:
            waits = [self.start_one(http, spec, next(ports), limit_s) for spec in new]
            failed = await asyncio.gather(*waits, return_exceptions=True)
        self.remember()
        for error in failed:
            if error is not None and not isinstance(error, ServerError):
                raise error
        return {s.name: str(e) for s, e in zip(new, failed, strict=True) if e is not None}

    async def start_one(self, http: aiohttp.ClientSession, spec: Server, port: int, limit_s: float) -> None:
        """Raises ServerError, after ending what is left of the server, if it dies or is late."""
        process, begin = self.spawn(spec, port), time.monotonic()
        try:
            await self.wait(http, spec, port, process, begin, limit_s)
        except ServerError:
            kill_groups([process.pid])
            raise

    async def wait(
        self,
        http: aiohttp.ClientSession,
        spec: Server,
        port: int,
        process: subprocess.Popen[bytes],
        begin: float,
        limit_s: float,
    ) -> None:
        log = self.work / f"{spec.name}.log"
        while True:
            passed = time.monotonic() - begin
            if process.poll() is not None:
                raise ServerError(f"{spec.name} ended with {process.returncode}:\n{tail(log)}")
            if passed > limit_s:
                raise ServerError(f"{spec.name} did not answer within {limit_s:.0f} s:\n{tail(log)}")
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, OSError):
                async with http.get(f"http://127.0.0.1:{port}/health") as reply:
                    if reply.status == 200:
                        self.members[spec.name] = Running(spec, port, process.pid, log, round(passed, 2))
                        print(f"{spec.name}: answers after {passed:.1f} s", flush=True)
                        return
            await asyncio.sleep(0.2)

    def find(self, specs: Sequence[Server]) -> None:
        """Take over servers that an earlier piece left running with the same command; stop its other ones."""
        wanted = {s.name: s for s in specs}
        try:
            known = json.loads((self.work / "servers.json").read_text())
        except (OSError, ValueError):
            known = []
        others = []
        for entry in known:
            spec = wanted.get(entry["name"])
            if spec and spec.name in self.members:
                continue
            same = spec and list(spec.args) == entry["args"] and dict(spec.env) == entry["env"]
            log = self.work / f"{entry['name']}.log"
            if spec and same:
                found = Running(spec, entry["port"], entry["pid"], log, entry["started_s"])
                if found.alive():
                    self.members[spec.name] = found
                    print(f"{spec.name}: already running", flush=True)
                    continue
            self.members.pop(entry["name"], None)
            others.append(entry["pid"])
        kill_groups(others)

    def remember(self) -> None:
        entries = [
            {
                "name": m.spec.name,
                "args": m.spec.args,
                "env": m.spec.env,
                "port": m.port,
                "pid": m.pid,
                "started_s": m.started_s,
            }
            for m in self.members.values()
        ]
        (self.work / "servers.json").write_text(json.dumps(entries))

    def stop(self, names: Sequence[str] | None = None) -> None:
        """End the process groups of these servers (all by default) and wait until they are gone."""
        kill_groups([self.members.pop(name).pid for name in list(self.members if names is None else names)])
        self.remember()

    @staticmethod
    def check_one(member: Running) -> None:
        """Raises ServerError if it has died."""
        if not member.alive():
            raise ServerError(f"{member.spec.name} died:\n{tail(member.log)}")


def kill_groups(pids: Sequence[int], wait_s: float = 20.0) -> None:
    """End process groups that this module started, all at once. A group's number is the pid of its leader."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    end = time.monotonic() + wait_s
    while (left := living(pids)) and time.monotonic() < end:
        time.sleep(0.1)
    if left:
        print(f"still there after {wait_s:.0f} s: process groups {sorted(left)}", flush=True)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def living(groups: Sequence[int]) -> set[int]:
    """Those process groups with a process that is no zombie: those of a former run may never be reaped."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat") if groups else ():
        with contextlib.suppress(OSError):
            state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if state not in "ZX" and int(group) in groups:
                found.add(int(group))
    return found


def tail(log: Path, size: int = 1800) -> str:
    with log.open("rb") as f:
        f.seek(max(0, log.stat().st_size - size))
        return f.read().decode(errors="replace")
