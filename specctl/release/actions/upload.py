"""Push files: the uv binary, wheels for a host without an index, the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.release.errors import ReleaseError
from specctl.release.words import counted


@dataclass(frozen=True)
class Push:
    """One file on its way."""

    local: str
    remote: str
    sha256: str
    size: int  # bytes
    mode: int = 0o644


def push(ctx: Context, files: tuple[Push, ...]) -> None:
    """Upload each file that is not there with that hash.

    Raises:
        ReleaseError: a local file is not what the plan was made from.
    """
    total = sum(f.size for f in files) or 1
    before = 0
    for file in files:
        ctx.check()
        path = Path(file.local)
        if not path.is_file() or path.stat().st_size != file.size:
            raise ReleaseError(
                f"{path.name} changed since the plan was made",
                code="source-changed",
                context={"host": ctx.host.name, "file": file.local},
                hint="run the command again",
            )

        def moved(sent: int, done: int = before, name: str = path.name) -> None:
            ctx.progress(f"{name} {100 * (done + sent) // total}%")

        ctx.host.put(
            path, file.remote, sha256=file.sha256, mode=file.mode, sudo=ctx.config.sudo, progress=moved
        )
        before += file.size


def megabytes(files: tuple[Push, ...]) -> str:
    return f"{sum(f.size for f in files) / 1e6:.1f} MB"


@dataclass(frozen=True)
class _PushFiles(Action):
    files: tuple[Push, ...]

    def lease_s(self) -> float:
        # a slow link: 1 MB/s, and a minute for the handshakes
        return 120.0 + sum(f.size for f in self.files) / 1e6

    def apply(self, ctx: Context) -> None:
        push(ctx, self.files)


@dataclass(frozen=True)
class PushTool(_PushFiles):
    """The operator's uv, for a host that has none."""

    kind: ClassVar[str] = "push-tool"

    def describe(self) -> str:
        return f"push {Path(self.files[0].remote).name} ({megabytes(self.files)})"

    def verify(self, ctx: Context) -> None:
        ctx.remote.command([self.files[0].remote, "--version"], timeout_s=30.0)


@dataclass(frozen=True)
class PushWheels(_PushFiles):
    """Wheels that the lock names and the host lacks."""

    kind: ClassVar[str] = "push-wheels"

    def describe(self) -> str:
        return f"push {counted(len(self.files), 'wheel')} ({megabytes(self.files)})"

    def apply(self, ctx: Context) -> None:
        for file in self.files:
            push(ctx, (file,))
            # the note says that this hash was checked; the next plan need not read gigabytes for it
            ctx.host.write(file.sha256.encode() + b"\n", f"{file.remote}.sha256", sudo=ctx.config.sudo)


@dataclass(frozen=True)
class PushDistribution(_PushFiles):
    """The wheel, its record and its lock, into the release's own folder."""

    kind: ClassVar[str] = "push-distribution"

    release: str = ""

    def describe(self) -> str:
        return f"push the distribution ({megabytes(self.files)})"
