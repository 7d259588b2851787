"""The environment of a release, made at its final path: a venv, the lock, the wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from specctl.release.actions.base import Action
from specctl.release.actions.job import run_job
from specctl.release.context import Context
from specctl.release.layout import Layout
from specctl.release.words import counted


def install_env(layout: Layout) -> dict[str, str]:
    """Caches and temporary files stay below the root: its file system is the only one that counts."""
    return {
        "UV_CACHE_DIR": layout.cache,
        "UV_LINK_MODE": "hardlink",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "TMPDIR": layout.tmp,
    }


def venv_argv(uv: str | None, python: str, venv: str, *, adopted: bool) -> tuple[str, ...]:
    """Make a venv. An adopted environment's Python writes no bytecode while it does."""
    if adopted:
        return (python, "-B", "-m", "venv", "--without-pip", venv)
    if uv:
        return (uv, "venv", "--no-project", "--python", python, venv)
    return (python, "-m", "venv", venv)


def install_argv(
    uv: str | None, venv_python: str, what: tuple[str, ...], *, wheels: str | None, index: bool
) -> tuple[str, ...]:
    """uv or pip, for one set of requirements; without `index` only from the folder `wheels`, if any."""
    if uv:
        head: tuple[str, ...] = (uv, "pip", "install", "--python", venv_python)
        source: tuple[str, ...] = () if index else ("--offline", "--no-index", "--no-config")
    else:
        head = (venv_python, "-m", "pip", "install")
        source = () if index else ("--no-index",)
    links = ("--find-links", wheels) if wheels else ()
    return (*head, *source, *links, *what)


@dataclass(frozen=True)
class MakeVenv(Action):
    """An empty environment; thin when it will lie on top of an adopted one."""

    kind: ClassVar[str] = "make-venv"

    release: str
    python: str
    uv: str | None
    adopted: bool = False

    def describe(self) -> str:
        return f"make {'a thin venv' if self.adopted else 'a venv'} with {self.python}"

    def apply(self, ctx: Context) -> None:
        venv = ctx.layout.release(self.release).venv
        argv = venv_argv(self.uv, self.python, venv, adopted=self.adopted)
        run_job(
            ctx,
            self.release,
            "venv",
            argv,
            env=install_env(ctx.layout),
            what="making the venv",
            deadline_s=300.0,
        )

    def verify(self, ctx: Context) -> None:
        python = ctx.layout.release(self.release).python
        ctx.remote.command([python, "-I", "-B", "-c", "pass"], timeout_s=60.0)


@dataclass(frozen=True)
class InstallLock(Action):
    """Everything that SGLang needs, exactly as the lock says, each file checked against its hash."""

    kind: ClassVar[str] = "install-lock"

    release: str
    uv: str | None
    packages: int
    wheels: str | None  # the pushed wheels' folder; None: the host's own index

    def describe(self) -> str:
        source = f"from {self.wheels}" if self.wheels else "from the host's package index"
        return f"install {counted(self.packages, 'locked package')} {source}"

    def apply(self, ctx: Context) -> None:
        paths = ctx.layout.release(self.release)
        what = ("--require-hashes", "-r", f"{paths.folder}/lock.txt")
        argv = install_argv(self.uv, paths.python, what, wheels=self.wheels, index=self.wheels is None)
        run_job(
            ctx,
            self.release,
            "lock",
            argv,
            env=install_env(ctx.layout),
            what="installing the locked packages",
        )


@dataclass(frozen=True)
class InstallWheel(Action):
    """SGLang itself, and nothing with it."""

    kind: ClassVar[str] = "install-wheel"

    release: str
    wheel: str  # file name, in the release's folder
    uv: str | None
    installer: str | None = None  # a Python whose pip installs it, when the venv has none (thin, and no uv)

    def describe(self) -> str:
        return f"install {self.wheel}"

    def apply(self, ctx: Context) -> None:
        paths = ctx.layout.release(self.release)
        what = ("--no-deps", f"{paths.folder}/{self.wheel}")
        if self.installer:
            argv: tuple[str, ...] = (self.installer, "-B", "-m", "pip", "--python", paths.python, "install")
            argv = (*argv, "--no-index", "--no-compile", *what)
        else:
            argv = install_argv(self.uv, paths.python, what, wheels=None, index=False)
        run_job(
            ctx,
            self.release,
            "wheel",
            argv,
            env=install_env(ctx.layout),
            what="installing the wheel",
            deadline_s=600.0,
        )
