"""Look at what was installed before anything may point to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from specctl.config.model import EnvironmentKind
from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.release.errors import InstallFailed
from specctl.release.words import counted

IMPORT_S = 120.0  # a first import on a cold disk
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '(?!sglang)([A-Za-z0-9_.]+)'")


@dataclass(frozen=True)
class CheckInstall(Action):
    """The version, the sha256 of every overlaid file, and where `import sglang` leads, on the host."""

    kind: ClassVar[str] = "check-install"

    release: str
    version: str
    files: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        return f"check version and {counted(len(self.files), 'overlaid file')} on the host"

    def lease_s(self) -> float:
        return IMPORT_S + 120.0

    def apply(self, ctx: Context) -> None:
        paths = ctx.layout.release(self.release)
        answer = ctx.remote.program(
            "install",
            op="check",
            venv=paths.venv,
            version=self.version,
            files=dict(self.files),
            import_timeout_s=IMPORT_S,
            python=paths.python,
            timeout_s=IMPORT_S + 60.0,
        )
        problems = answer["problems"]
        if problems:
            first = problems[0]
            raise InstallFailed(
                f"the install on {ctx.host.name} is not what was built: {first['what']}",
                code="install-differs",
                context={
                    "host": ctx.host.name,
                    "venv": paths.venv,
                    **{p["what"]: f"expected {p['expected']}, seen {p['seen']}" for p in problems[:5]},
                },
                hint="nothing that serves was touched; deploy again to install it anew",
            )
        if answer["broken"]:
            raise _cannot_import(ctx, answer["broken"], answer["missing"])


def _cannot_import(ctx: Context, output: str, missing: list[str]) -> InstallFailed:
    """What Python says at last is the sentence; its traceback only matters for other causes."""
    adopt = ctx.config.adopt if ctx.config.environment is EnvironmentKind.ADOPTED else None
    why = output.splitlines()[-1]
    module = _NO_MODULE.search(why)
    context = {"host": ctx.host.name}
    if adopt:
        context["adopted"] = adopt
    if module:
        what = f"SGLang needs the module {module.group(1)}, and {adopt or 'its environment'} has none"
    else:
        what = f"SGLang cannot be imported: {why}"
        context["output"] = output
    if missing:
        context["missing packages"] = ", ".join(missing)
    return InstallFailed(
        f"{ctx.host.name}: {what}",
        code="import-failed",
        context=context,
        hint=f"install what is missing into {adopt}, adopt another environment, or set environment: locked"
        if adopt
        else "nothing that serves was touched; deploy again to install it anew",
    )
