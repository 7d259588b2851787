"""What the last run of a command left open, kept on the operator's machine, so that `--resume` can go on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specctl.config.model import HostConfig
from specctl.errors import UsageError
from specctl.release.result import HostResult


@dataclass(frozen=True)
class LastRun:
    """The record of one command on one inventory."""

    path: Path

    @classmethod
    def of(cls, command: str, inventory: Path, environ: Mapping[str, str]) -> LastRun:
        """Below $XDG_STATE_HOME/specctl (default ~/.local/state/specctl)."""
        home = Path(environ.get("HOME", "."))
        base = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
        digest = hashlib.sha256(str(inventory.resolve()).encode()).hexdigest()[:12]
        return cls(base / "specctl" / f"{command}-{digest}.json")

    def write(self, at: str, results: Sequence[HostResult]) -> None:
        """Remember who failed. Hosts of an earlier record that this run did not touch stay as they were."""
        outcomes = {**self._outcomes(), **{r.host: r.outcome.failed for r in results}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"at": at, "failed": outcomes}, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.path)

    def unfinished(self, hosts: Sequence[HostConfig]) -> tuple[HostConfig, ...]:
        """Those of `hosts` that failed, were unreachable or were skipped the last time.

        Raises:
            UsageError: there was no last time, or nothing was left open.
        """
        outcomes = self._outcomes()
        if not outcomes:
            raise UsageError(
                "--resume: no earlier run of this inventory is known here",
                code="no-last-run",
                context={"looked for": str(self.path)},
                hint="run it without --resume; hosts with nothing to do are left alone anyway",
            )
        left = tuple(h for h in hosts if outcomes.get(h.name))
        if not left:
            raise UsageError("--resume: the last run left no host open", code="nothing-to-resume")
        return left

    def _outcomes(self) -> dict[str, bool]:
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(k): bool(v) for k, v in raw["failed"].items()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return {}
