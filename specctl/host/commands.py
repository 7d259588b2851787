"""What every host can do once it can run one command: files and scripts, by small programs on its stdin."""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specctl.errors import UsageError
from specctl.host import command, programs
from specctl.host.call import Call
from specctl.host.capture import KEPT, Lines
from specctl.host.errors import CommandFailed, PythonMissing
from specctl.host.files import refused
from specctl.host.protocol import Result
from specctl.host.shape import shaped
from specctl.host.sudo import no_sudo

BLOCK = 256 << 10  # bytes sent at once
NOISE_LINES = 1_000  # after a program's answer: what a logout script prints
PYTHONS = ("python3", "/usr/libexec/platform-python")


class CommandHost(ABC):
    """A `Host` on top of one method that runs a command."""

    def __init__(self, name: str, *, command_timeout_s: float = 120.0, python: str = "python3") -> None:
        self.name = name
        self._timeout_s = command_timeout_s
        self._pythons = tuple(dict.fromkeys((*PYTHONS, python)))
        self._sudo_works = False

    @abstractmethod
    def _execute(self, call: Call) -> Result:
        """Run one command to its end, whatever its exit code.

        Raises:
            Unreachable: the link was lost.
            HostTimeout: the deadline passed; what can be ended there has been.
        """

    @property
    @abstractmethod
    def is_root(self) -> bool:
        """True when the user has no need of sudo."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        sudo: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
    ) -> Result:
        """See `Host.run`."""
        call = Call(
            tuple(argv),
            stdin=None if stdin is None else (stdin,),
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            sudo=sudo,
            env=env or {},
            cwd=cwd,
        )
        result = self._finish(call)
        if check and not result.ok:
            raise failed(self.name, result)
        return result

    def stream(
        self,
        argv: Sequence[str],
        on_line: Callable[[bytes], bool | None],
        *,
        timeout_s: float | None = None,
        sudo: bool = False,
    ) -> int:
        """See `Host.stream`; the exit code is -1 when `on_line` stopped it."""
        lines = Lines(on_line)
        result = self._finish(Call(tuple(argv), timeout_s=timeout_s, sudo=sudo, lines=lines))
        return -1 if lines.stopped else result.exit_code

    def script(
        self,
        source: str,
        params: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        sudo: bool = False,
        python: str = "python3",
    ) -> object:
        """See `Host.script`."""
        call = Call(
            command.python(programs.LOADER, tuple(dict.fromkeys((python, *self._pythons)))),
            stdin=(_packed(source, params),),
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            sudo=sudo,
            repeatable=True,
            title=(python, "-I", "-"),
        )
        return self._answer(call)

    def put(
        self,
        local: Path,
        remote: str,
        *,
        sha256: str,
        mode: int = 0o644,
        sudo: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> bool:
        """See `Host.put`.

        Raises:
            UsageError: the local file is not there, or is not the one that `sha256` names.
        """
        try:
            seen = _hash_of(local)
        except OSError as exc:
            raise UsageError(f"{local} cannot be read: {exc.strerror}", context={"host": self.name}) from exc
        if seen != sha256:
            raise UsageError(
                f"{local} is not the file that was planned",
                code="wrong-file",
                context={"host": self.name, "expected sha256": sha256, "seen sha256": seen},
                hint="build the distribution again, then plan again",
            )
        size = local.stat().st_size
        facts = {"path": remote, "size": size, "sha256": sha256, "mode": mode}
        if self._look(remote, {**facts, "want": "sha256"}, sudo=sudo).get("same"):
            return False
        self._receive(facts, _blocks(local, progress), sudo=sudo)
        return True

    def write(self, data: bytes, remote: str, *, mode: int = 0o644, sudo: bool = False) -> None:
        """See `Host.write`."""
        facts = {"path": remote, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mode": mode}
        self._receive(facts, (data,), sudo=sudo)

    def read(self, remote: str, *, limit: int = 4 << 20, sudo: bool = False) -> bytes | None:
        """See `Host.read`."""
        params = {"path": remote, "want": "bytes", "limit": limit}
        answer = self._look(remote, params, sudo=sudo, limit=limit)
        return shaped(self.name, "file", answer, _bytes_in)

    # -- within

    def _look(
        self, path: str, params: Mapping[str, object], *, sudo: bool, limit: int = 0
    ) -> dict[str, object]:
        call = Call(
            command.python(programs.LOADER, self._pythons),
            stdin=(_packed(programs.source("look"), params),),
            timeout_s=max(self._timeout_s, 600.0),  # a hash of several GB on a slow disk takes its time
            sudo=sudo,
            keep=max(KEPT, 3 * limit),
            repeatable=True,
            title=("read", path),
        )
        answer = self._answer(call)
        if not isinstance(answer, dict) or "errno" in answer:
            raise refused(self.name, path, "read", answer, root=sudo or self.is_root)
        return answer

    def _receive(self, facts: Mapping[str, object], blocks: Iterable[bytes], *, sudo: bool) -> None:
        params = {**facts, "stall_s": max(1, round(self._timeout_s))}
        head = _packed(programs.source("receive"), params)

        def everything() -> Iterable[bytes]:
            yield head
            yield from blocks

        call = Call(
            command.python(programs.LOADER, self._pythons),
            stdin=everything(),
            timeout_s=self._timeout_s,
            stall=True,
            sudo=sudo,
            title=("write", str(facts["path"])),
        )
        answer = self._answer(call)
        if not isinstance(answer, dict) or answer.get("state") != "written":
            raise refused(self.name, str(facts["path"]), "written", answer, root=sudo or self.is_root)

    def _answer(self, call: Call) -> object:
        """Run a program and return the JSON document it printed last; noise around it is passed over."""
        result = self._finish(call)
        if result.exit_code == 127:
            raise PythonMissing(
                f"{self.name} has no Python that specctl could use",
                context={"host": self.name, "looked for": ", ".join(call.argv[5:])},
                hint="install Python 3 there, or name one in the inventory (python:)",
            )
        if not result.ok:
            raise failed(self.name, result)
        for text in _lines_from_the_end(result.stdout):
            try:
                document: object = json.loads(text)
            except (ValueError, RecursionError):
                continue
            return document
        raise failed(self.name, result, "printed no JSON document")

    def _finish(self, call: Call) -> Result:
        if call.sudo and self.is_root:
            call = replace(call, sudo=False)
        result = self._execute(call)
        if call.sudo and result.exit_code in (1, 127) and not self._sudo_works:
            self._check_sudo()
        self._sudo_works = self._sudo_works or (call.sudo and result.ok)
        return result

    def _check_sudo(self) -> None:
        """Tell 'the command failed' from 'sudo did not run it'; sudo's words only choose the hint."""
        probe = self._execute(Call(("true",), timeout_s=self._timeout_s, sudo=True))
        if probe.ok:
            self._sudo_works = True
            return
        raise no_sudo(self.name, probe)


def failed(host: str, result: Result, what: str | None = None) -> CommandFailed:
    """The error for a command that ended badly, with the end of its output."""
    return CommandFailed(
        f"{result.argv[0]} {what or _ended(result.exit_code)} on {host}",
        context={
            "host": host,
            "command": command.shown(result.argv),
            "output": result.tail or "(none)",
        },
    )


def _ended(code: int) -> str:
    if code == 127:
        return "was not found"
    if code > 128:
        return f"was killed by signal {code - 128}"
    return f"ended with exit code {code}"


def _lines_from_the_end(data: bytes) -> Iterator[bytes]:
    """The last lines, the last one first; so many and no more, whatever a host prints."""
    end = len(data)
    for _ in range(NOISE_LINES):
        start = data.rfind(b"\n", 0, end) + 1
        yield data[start:end]
        if start == 0:
            return
        end = start - 1


def _bytes_in(answer: Mapping[str, object]) -> bytes | None:
    data = answer["data"]
    return None if data is None else base64.b64decode(str(data), validate=True)


def _packed(source: str, params: Mapping[str, object]) -> bytes:
    """A program and its parameters as `programs.LOADER` reads them."""
    text = source.encode()
    return b"%d\n" % len(text) + text + json.dumps(params).encode() + b"\n"


def _hash_of(path: Path) -> str:
    with path.open("rb") as handle:
        digest = hashlib.sha256()
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path, progress: Callable[[int], None] | None) -> Iterable[bytes]:
    sent = 0
    with path.open("rb") as handle:
        for block in iter(lambda: handle.read(BLOCK), b""):
            yield block
            sent += len(block)
            if progress:
                progress(sent)
