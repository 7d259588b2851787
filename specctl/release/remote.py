"""Sends the programs of `specctl.release.onhost` to a host, and runs commands there."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from specctl.host.errors import CommandFailed
from specctl.host.joining import statements, without_own_imports
from specctl.host.protocol import Host, Result
from specctl.release.errors import ReleaseError

RUN_VARIABLE = (
    "SPECCTL_RUN"  # in the environment of all that a run starts on a host, so that it is found again
)

_PACKAGE = "specctl.release.onhost"


@cache
def program_source(name: str, call: str = "print(json.dumps(main(params)))") -> str:
    """One self-contained program: `common`, what `name` imports, `name`, and `call`, what it does."""
    parts = [_stripped(part) for part in _needed(name, ["common"])]
    return "\n".join(("from __future__ import annotations", *parts, call))


def _needed(name: str, before: list[str]) -> list[str]:
    """Modules of the package in the order in which they have to stand, `name` last."""
    for node in statements(_text(name)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE + "."):
            part = (node.module or "").rpartition(".")[2]
            if part not in before:
                _needed(part, before)
    if name not in before:
        before.append(name)
    return before


def _text(name: str) -> str:
    return files(_PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")


def _stripped(name: str) -> str:
    return without_own_imports(_text(name))


@dataclass(frozen=True)
class Remote:
    """One host, with what every call of one run has in common."""

    host: Host
    root: str
    run: str
    sudo: bool = False

    def program(
        self, name: str, /, *, timeout_s: float = 60.0, python: str = "python3", **params: object
    ) -> Any:
        """Run one program of `onhost`; what its `main` returned. `timeout_s` in seconds.

        Raises:
            ReleaseError: the program failed; its own last words are the message.
        """
        try:
            return self.host.script(
                program_source(name),
                {"root": self.root, **params},
                timeout_s=timeout_s,
                sudo=self.sudo,
                python=python,
            )
        except CommandFailed as exc:
            output = exc.context.get("output", "").strip()
            said = output.splitlines()[-1] if output else exc.message
            what = " ".join(str(word) for word in (name, params.get("op")) if word)
            raise ReleaseError(
                f"{what} failed on {self.host.name}: {said}",
                code="program-failed",
                context={"host": self.host.name, "program": what, "output": output},
                hint=exc.hint,
            ) from exc

    def command(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Result:
        """Run one command of this run; the variables travel through env(1), which sudo does not strip."""
        return self.host.run(
            with_env(argv, {**(env or {}), RUN_VARIABLE: self.run}),
            timeout_s=timeout_s,
            sudo=self.sudo,
            check=check,
        )


def with_env(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """argv with variables set by env(1). Never for secrets: they would show in the process list."""
    return ("env", *(f"{k}={v}" for k, v in sorted(env.items())), *argv)
