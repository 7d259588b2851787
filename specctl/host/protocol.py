"""The one port through which specctl touches a host. `ssh`, `local` and `fake` implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

TAIL_LINES = 15
TAIL_BYTES = 8 << 10


@dataclass(frozen=True)
class Result:
    """One finished command."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    dropped: int = 0  # bytes left out of the middle of stdout and stderr, beyond what is kept in memory

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """stdout as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def tail(self) -> str:
        """The last lines of stderr (of stdout when stderr is empty), for an error's context."""
        return tail_of(self.stderr if self.stderr.strip() else self.stdout)


def tail_of(data: bytes) -> str:
    """The last lines of an output as text; a line without an end gives its end."""
    text = data[-TAIL_BYTES:].decode("utf-8", "replace")
    return "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])


class Host(Protocol):
    """A host as actions and probes see it.

    Every method raises `specctl.host.errors.Unreachable` when the link is lost (the remote command may
    still be running: callers must be able to find out and repeat) and `HostTimeout` at its deadline.
    argv is never given to a shell unquoted; no secret may be put into argv.
    """

    name: str

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
        """Run one command. `check`: a non-zero exit raises `CommandFailed` with the end of its output."""
        ...

    def stream(
        self,
        argv: Sequence[str],
        on_line: Callable[[bytes], bool | None],
        *,
        timeout_s: float | None = None,
        sudo: bool = False,
    ) -> int:
        """Run and hand over each line of stdout as it comes (cut at 64 KiB each); False stops it."""
        ...

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
        """Upload under a temporary name, check the hash on the host, rename. False: it was there already.

        `progress` is told how many bytes have left so far. The folder must exist. No deadline on the
        whole, but `HostTimeout` when nothing moves for as long as a command may take.

        Raises:
            DiskFull, ReadOnly, PermissionRefused: with the path, and the file system it lies on.
        """
        ...

    def write(self, data: bytes, remote: str, *, mode: int = 0o644, sudo: bool = False) -> None:
        """Write a small file atomically (temporary name in the same folder, fsync, rename)."""
        ...

    def read(self, remote: str, *, limit: int = 4 << 20, sudo: bool = False) -> bytes | None:
        """At most `limit` bytes of a file; None when it does not exist."""
        ...

    def script(
        self,
        source: str,
        params: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        sudo: bool = False,
        python: str = "python3",
    ) -> object:
        """Run a stdlib-only Python program on the host in one round trip.

        `source` travels on stdin together with `params` (JSON), so nothing of it shows in `ps`. It runs
        as `__main__` with `params` as a global dict, under `python3 -I`, and must print one JSON document
        as its last line of stdout; that is what is returned. A non-zero exit raises `CommandFailed`.
        Programs must bear being run twice: a connection found dead before anything was sent is opened
        anew, once.
        """
        ...

    def close(self) -> None: ...
