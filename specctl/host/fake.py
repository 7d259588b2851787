"""A host of a script's making, for tests: commands are matched and answered, files live in a dictionary."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from specctl.errors import SpecctlError
from specctl.host.commands import failed
from specctl.host.protocol import Result


@dataclass(frozen=True)
class Recorded:
    """One call, as the code under test made it."""

    verb: Literal["run", "stream", "put", "write", "read", "script"]
    argv: tuple[str, ...] = ()  # run and stream; (path,) for files
    stdin: bytes | None = None
    sudo: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_s: float | None = None
    source: str = ""  # script
    params: Mapping[str, object] = field(default_factory=dict)  # script


class UnexpectedCall(AssertionError):
    """The test did not say what the host should answer."""


class ScriptedHost:
    """A `Host` that does what a test tells it.

        host = ScriptedHost("h1", files={"/etc/os-release": b"ID=debian"})
        host.on("systemctl", "start", "*")                          # exit code 0, no output
        host.on("df", "...", stdout=b"full", exit_code=1, times=1)  # the next rule answers the second call
        host.on_script("gather", {"os": "debian"})                  # a script whose source contains "gather"
        host.break_at("put", Unreachable("gone"))                   # the next put raises

    Patterns are words; "*" stands for any one word, a last "..." for any rest. Rules are tried in the order
    in which they were given, a rule with `times` only so often. `calls` holds everything that was asked.
    """

    def __init__(self, name: str = "fake", *, files: Mapping[str, bytes] | None = None) -> None:
        self.name = name
        self.files: dict[str, bytes] = dict(files or {})
        self.modes: dict[str, int] = dict.fromkeys(self.files, 0o644)
        self.calls: list[Recorded] = []
        self.closed = False
        self._rules: list[_Rule] = []
        self._scripts: list[tuple[str, object]] = []
        self._breaks: list[tuple[str, SpecctlError]] = []

    # -- what a test says

    def on(
        self,
        *pattern: str,
        stdout: bytes | str = b"",
        stderr: bytes | str = b"",
        exit_code: int = 0,
        raises: SpecctlError | None = None,
        times: int | None = None,
    ) -> None:
        """Answer commands that match; `raises` instead of an answer."""
        self._rules.append(_Rule(pattern, _bytes(stdout), _bytes(stderr), exit_code, raises, times))

    def on_script(self, part: str, answer: object | Callable[[Mapping[str, object]], object]) -> None:
        """Answer scripts whose source contains `part`; a callable gets the parameters."""
        self._scripts.append((part, answer))

    def break_at(self, verb: str, error: SpecctlError) -> None:
        """Raise `error` at the next call of a verb."""
        self._breaks.append((verb, error))

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """The argv of every run and stream, in order."""
        return [call.argv for call in self.calls if call.verb in ("run", "stream")]

    # -- Host

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
        self._note(Recorded("run", tuple(argv), stdin, sudo, dict(env or {}), cwd, timeout_s))
        result = self._answer(tuple(argv))
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
        """See `Host.stream`."""
        self._note(Recorded("stream", tuple(argv), sudo=sudo, timeout_s=timeout_s))
        result = self._answer(tuple(argv))
        for line in result.stdout.splitlines():
            if on_line(line) is False:
                return -1
        return result.exit_code

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
        """See `Host.put`."""
        self._note(Recorded("put", (str(local), remote), sudo=sudo))
        data = local.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise UnexpectedCall(f"{local} does not have the hash that was handed over")
        if self.files.get(remote) == data:
            self.modes[remote] = mode
            return False
        self.files[remote], self.modes[remote] = data, mode
        if progress:
            progress(len(data))
        return True

    def write(self, data: bytes, remote: str, *, mode: int = 0o644, sudo: bool = False) -> None:
        """See `Host.write`."""
        self._note(Recorded("write", (remote,), stdin=data, sudo=sudo))
        self.files[remote], self.modes[remote] = data, mode

    def read(self, remote: str, *, limit: int = 4 << 20, sudo: bool = False) -> bytes | None:
        """See `Host.read`."""
        self._note(Recorded("read", (remote,), sudo=sudo))
        data = self.files.get(remote)
        return None if data is None else data[:limit]

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
        self._note(
            Recorded("script", (python,), sudo=sudo, timeout_s=timeout_s, source=source, params=dict(params))
        )
        for part, answer in self._scripts:
            if part in source:
                return answer(params) if callable(answer) else answer
        raise UnexpectedCall(f"no answer for the script that starts {source[:80]!r}")

    def close(self) -> None:
        """See `Host.close`."""
        self.closed = True

    # -- within

    def _note(self, call: Recorded) -> None:
        self.calls.append(call)
        for position, (verb, error) in enumerate(self._breaks):
            if verb == call.verb:
                del self._breaks[position]
                raise error

    def _answer(self, argv: tuple[str, ...]) -> Result:
        for rule in self._rules:
            if rule.matches(argv):
                rule.used += 1
                if rule.raises is not None:
                    raise rule.raises
                return Result(argv, rule.exit_code, rule.stdout, rule.stderr, 0.0)
        raise UnexpectedCall(f"no answer for {' '.join(argv)}")


@dataclass
class _Rule:
    pattern: tuple[str, ...]
    stdout: bytes
    stderr: bytes
    exit_code: int
    raises: SpecctlError | None
    times: int | None
    used: int = 0

    def matches(self, argv: tuple[str, ...]) -> bool:
        if self.times is not None and self.used >= self.times:
            return False
        pattern = self.pattern
        if pattern and pattern[-1] == "...":
            pattern = pattern[:-1]
            argv = argv[: len(pattern)]
        return len(pattern) == len(argv) and all(
            want in ("*", word) for want, word in zip(pattern, argv, strict=True)
        )


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text
