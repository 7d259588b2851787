"""A thin environment over one that already serves: ours holds SGLang, the adopted one the rest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from specctl.release.actions.base import Action
from specctl.release.context import Context
from specctl.release.errors import InstallFailed


def _folders(ctx: Context, adopt: str) -> Any:
    return ctx.remote.program("install", op="site", python=f"{adopt}/bin/python", timeout_s=60.0)


def _fingerprint(ctx: Context, adopt: str) -> Any:
    folders = _folders(ctx, adopt)["folders"]
    return ctx.remote.program("adopted", op="fingerprint", adopt=adopt, folders=folders, timeout_s=300.0)


def _note(ctx: Context, release: str) -> str:
    return f"{ctx.layout.release(release).folder}/adopted-{ctx.remote.run}.json"


@dataclass(frozen=True)
class FingerprintAdopted(Action):
    """Note what the adopted environment is made of, before anything runs beside it."""

    kind: ClassVar[str] = "fingerprint-adopted"

    release: str
    adopt: str

    def describe(self) -> str:
        return f"note every file of {self.adopt}"

    def lease_s(self) -> float:
        return 360.0

    def apply(self, ctx: Context) -> None:
        seen = _fingerprint(ctx, self.adopt)
        ctx.host.write(json.dumps(seen).encode(), _note(ctx, self.release), sudo=ctx.config.sudo)


@dataclass(frozen=True)
class LinkAdopted(Action):
    """Let the thin environment find the adopted one's packages, after its own."""

    kind: ClassVar[str] = "link-adopted"

    release: str
    adopt: str

    def describe(self) -> str:
        return f"lay it over {self.adopt}"

    def apply(self, ctx: Context) -> None:
        found = _folders(ctx, self.adopt)
        ctx.remote.program(
            "adopted",
            op="link",
            adopt=self.adopt,
            venv=ctx.layout.release(self.release).venv,
            folders=found["folders"],
            version=found["version"][:2],
        )


@dataclass(frozen=True)
class CheckAdopted(Action):
    """Not one file of the adopted environment was made, changed or removed since it was noted."""

    kind: ClassVar[str] = "check-adopted"

    release: str
    adopt: str

    def describe(self) -> str:
        return f"check that {self.adopt} is unchanged"

    def lease_s(self) -> float:
        return 360.0

    def apply(self, ctx: Context) -> None:
        note = ctx.host.read(_note(ctx, self.release), sudo=ctx.config.sudo)
        before = json.loads(note or b"{}")
        after = _fingerprint(ctx, self.adopt)
        if before.get("digest") != after["digest"]:
            raise InstallFailed(
                f"the adopted environment {self.adopt} on {ctx.host.name} changed during this run",
                code="adopted-changed",
                context={
                    "host": ctx.host.name,
                    "entries before": str(before.get("entries", "unknown")),
                    "entries now": str(after["entries"]),
                },
                hint="find what wrote there at this time (find -newer); specctl itself only reads it",
            )
