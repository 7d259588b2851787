"""One real SGLang server on the rig: its command line, its process, what it says of itself."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import environment
from .client import Client, Refused

READY_S = 120.0  # a loaded machine with two cores
POOL_TOKENS = 8192


@dataclass(frozen=True)
class Spec:
    """What to start. Two equal specs are the same server."""

    worker: str = "plain"  # plain: no speculation; v1: EAGLEWorker; v2: EAGLEWorkerV2
    algorithm: str = "EAGLE"
    draft: str = "good"  # distilled; rand: untrained
    threshold: int | None = None  # None: the flag is not given
    radix: bool = True
    flags: tuple[str, ...] = ()  # more of the command line; a later flag wins
    env: tuple[tuple[str, str], ...] = ()
    hooks: tuple[str, ...] = ("probe",)  # files in hooks/, without .py
    tree: str = "dist"  # base: the published wheel
    without: tuple[str, ...] = ()  # flags of the usual command line to leave out

    @property
    def name(self) -> str:
        parts = [self.worker]
        if self.worker != "plain":
            parts += [self.algorithm, self.draft]
        return "-".join([*parts, "radix" if self.radix else "noradix"])

    def argv(self, port: int) -> list[str]:
        """Arguments of sglang.launch_server."""
        values: dict[str, object] = {
            "--model-path": environment.MODELS / "target",
            "--host": "127.0.0.1",
            "--port": port,
            "--device": "cpu",
            "--dtype": "float32",
            "--attention-backend": "triton",  # torch_native has no multi-step backend for drafts
            "--sampling-backend": "pytorch",
            "--grammar-backend": "none",
            "--mem-fraction-static": 0.5,
            "--max-total-tokens": POOL_TOKENS,
            "--max-running-requests": 12,
            "--context-length": 1024,
            "--random-seed": 0,
            "--decode-log-interval": 5,
        }
        if self.worker != "plain":
            values |= {
                "--speculative-algorithm": self.algorithm,
                "--speculative-draft-model-path": environment.MODELS
                / f"{self.algorithm.lower()}_{self.draft}",
                "--speculative-num-steps": 3,
                "--speculative-eagle-topk": 1,
                "--speculative-num-draft-tokens": 4,
            }
        if self.threshold is not None:
            values["--speculative-disable-batch-threshold"] = self.threshold
        switches = ["--disable-cuda-graph", "--skip-server-warmup"]
        if not self.radix:
            switches.append("--disable-radix-cache")
        pairs = [str(part) for pair in values.items() if pair[0] not in self.without for part in pair]
        return [*pairs, *switches, *self.flags]

    def environment(self) -> dict[str, str]:
        return {"SGLANG_ENABLE_SPEC_V2": str(self.worker == "v2"), **dict(self.env)}


class ServerDied(Exception):
    """The server ended, or did not get ready. The text holds the end of its log."""


class Nursery:
    """A process that starts servers of one SGLang tree; see nursery.py."""

    def __init__(self, tree: Path) -> None:
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "RIG_HOOKS"))},
            "PYTHONPATH": f"{environment.SHIMS}{os.pathsep}{tree}",
            "PYTHONPYCACHEPREFIX": str(environment.HOME / "pycache"),  # compile torch once, not at each start
        }
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the nursery)
        self.process = subprocess.Popen(
            [str(environment.python()), "-W", "ignore", str(environment.HERE / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=env,
        )
        self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.errors.seek(0)
            end = "\n".join(self.errors.read().splitlines()[-20:])
            raise ServerDied(f"the nursery ended with status {status}:\n{end}")
        return json.loads(line)

    def ask(self, op: str, **arguments: object) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def free_port() -> int:
    """A port below those that outgoing connections get, so that none of them takes it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


@dataclass
class Pool:
    """Free room of the server's pools, in KV slots and request rows."""

    free: int
    evictable: int  # held by the radix cache only
    total: int
    rows: int
    retracted: int  # requests retracted so far


@dataclass
class Server:
    """A started server. `log` is its file; `client` talks to it."""

    spec: Spec
    nursery: Nursery
    pid: int
    log: Path
    client: Client
    folder: Path = field(default_factory=Path)

    def status(self) -> int | None:
        """None while it runs; else its exit status, or minus the signal that ended it."""
        status = self.nursery.ask("poll", pid=self.pid)["status"]
        assert status is None or isinstance(status, int)
        return status

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(OSError, Refused):
                # generates one token; before the first request of all, /server_info would hang
                Client(self.client.port, timeout_s=20).text("/health_generate")
                return
            if (status := self.status()) is not None:
                raise ServerDied(f"{self.spec.name} ended with status {status} at start:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerDied(f"{self.spec.name} was not ready after {timeout_s:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def wait_end(self, timeout_s: float = READY_S) -> int:
        """The exit status of a server that is expected to end by itself."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status()) is None:
            if time.monotonic() > deadline:
                raise ServerDied(f"{self.spec.name} still runs after {timeout_s:.0f} s:\n{self.tail()}")
            time.sleep(0.05)
        return status

    def ended_soon(self, timeout_s: float = 10) -> bool:
        """Whether the server ends within a moment; a connection is lost before its process is gone."""
        try:
            self.wait_end(timeout_s)
        except ServerDied:
            return False
        return True

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def internal_state(self) -> dict[str, Any]:
        state = self.client.json("/server_info")["internal_states"][0]
        assert isinstance(state, dict)
        return state

    def dynamic(self) -> dict[str, Any]:
        """What the server says of the switch; KeyError when the flag is not set."""
        state = self.internal_state()["dynamic_speculation"]
        assert isinstance(state, dict)
        return state

    def set_state(self, **server_args: object) -> Any:
        return self.client.json("/set_internal_state", {"server_args": server_args})

    def wait_idle(self, timeout_s: float = 30) -> None:
        """Until nothing runs or waits, and SGLang's own idle check has looked at the pools.

        Raises:
            ServerDied: the check found a leak (it ends the server).
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                rig = self.internal_state()["rig"]
            except OSError as exc:
                self.wait_end(10)
                raise ServerDied(f"{self.spec.name} ended while idle:\n{self.tail()}") from exc
            if rig["running"] == 0 and rig["idle_checks"] > 0:
                return
            time.sleep(0.05)
        raise ServerDied(f"{self.spec.name} was not idle after {timeout_s:.0f} s:\n{self.tail()}")

    def pool(self) -> Pool:
        return Pool(**self.internal_state()["rig"]["pool"])

    def gather(self, requests: int) -> None:
        """The next requests start together, when so many are there (hook `gather`; on an idle server)."""
        part = self.folder / "gather.part"
        part.write_text(str(requests))
        part.rename(self.folder / "gather")

    def flush(self) -> None:
        """Empty the radix cache; only an idle server does."""
        self.client.text("/flush_cache", {})

    def steps(self, rank: int = 0) -> list[dict[str, Any]]:
        """Every decode step of a tensor-parallel rank so far, as the probe hook traced it."""
        self.internal_state()  # makes the probe write
        lines = (self.folder / f"steps-{rank}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def markers(self) -> list[dict[str, str]]:
        """The fields of each marker line in the log."""
        lines = re.findall(r"Dynamic speculation disable enabled: (.*)", self.log_text())
        return [dict(part.split("=", 1) for part in line.split()) for line in lines]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait_end(10)


@contextlib.contextmanager
def serve(nursery: Nursery, spec: Spec, folder: Path, *, ready: bool = True) -> Iterator[Server]:
    """Start a server and end it afterwards. `ready=False`: do not wait; for servers that must not start."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    log = folder / "server.log"
    log.touch()
    paths: Mapping[str, str] = {"RIG_FOLDER": str(folder), "TMPDIR": str(folder)}
    pid = nursery.ask(
        "start",
        argv=spec.argv(port),
        env={**spec.environment(), **paths},
        hooks=[str(environment.HOOKS / f"{hook}.py") for hook in spec.hooks],
        log=str(log),
    )["pid"]
    server = Server(spec, nursery, pid, log, Client(port), folder)
    try:
        if ready:
            server.wait_ready()
        yield server
    finally:
        server.kill()
