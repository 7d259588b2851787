"""Evidence 2: what is installed. Version and overlaid files, where the server itself would import them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.evidence.model import Evidence, Expectation, Kind, Verdict
from specctl.evidence.onhost import source
from specctl.evidence.route import WORKER_FILES
from specctl.host.protocol import Host

OVERLAY_TOKEN = "dynamic_disable"  # every worker file that the overlay hooks names its module
CLOCK_SLACK_S = 2.0  # between a link's time stamp and a process's start time


@dataclass(frozen=True)
class Installed:
    """What the server's own interpreter would import, and when the server was started."""

    version: str | None = None
    site: str | None = None  # the site-packages that `sglang` comes from
    inside: bool = False  # whether that lies in the release
    release: str = ""  # what `current` points to
    files: Mapping[str, str | None] = field(default_factory=dict)  # path -> sha256; None: cannot be read
    hooked: tuple[str, ...] = ()  # worker files that name the overlay's module
    process_age: float | None = None  # seconds since the main process started
    link_age: float | None = None  # seconds since `current` was pointed at the release
    error: str | None = None

    @property
    def hooked_workers(self) -> tuple[str, ...]:
        return tuple(worker for worker, path in WORKER_FILES.items() if path in self.hooked)


def read_installed(
    host: Host, expectation: Expectation, *, folder: str, env: Mapping[str, str], pid: int, sudo: bool
) -> Installed:
    """Ask the host.

    Args:
        folder: the server's folder, which is its working directory and holds `current`.
        env: the server's environment without secrets; PYTHONPATH in it changes what is imported.
        pid: main process, 0 for none.
    """
    params: dict[str, object] = {
        "python": f"{folder}/current/venv/bin/python",
        "cwd": folder,
        "env": {k: v for k, v in env.items() if k.startswith("PYTHON")},
        "release": f"{folder}/current/",
        "current": f"{folder}/current",
        "pid": pid,
        "files": sorted(expectation.files),
        "worker_files": list(WORKER_FILES.values()),
        "token": OVERLAY_TOKEN,
    }
    raw = host.script(source("install"), params, sudo=sudo)
    if not isinstance(raw, dict):
        return Installed(error="no answer")
    values: dict[str, Any] = {k: raw[k] for k in Installed.__dataclass_fields__ if k in raw}
    values["hooked"] = tuple(values.get("hooked", ()))
    return Installed(**values)


def judge_install(expectation: Expectation, seen: Installed) -> Evidence:
    """Version and hashes equal to the plan's, from the release, and older than the process that runs them."""
    count = len(expectation.files)
    expected = f"sglang {expectation.distribution}, {count} overlaid files with the planned sha256"
    where = seen.site or "the server's python"
    again = "deploy again: specctl deploy (files of a release are never changed in place)"

    def verdict(verdict: Verdict, code: str, text: str, hint: str | None = again) -> Evidence:
        return Evidence(Kind.INSTALL, verdict, code, expected, text, where, hint)

    if seen.error:
        return verdict(
            Verdict.UNKNOWN, "install-unreadable", seen.error, "is the release complete? specctl status"
        )
    if not seen.site:
        return verdict(Verdict.FAIL, "install-missing", "the server's python finds no sglang")
    if not seen.inside:
        hint = "remove it from PYTHONPATH or from the server's folder, then restart the server"
        text = f"sglang is imported from {seen.site}, outside the release {seen.release}"
        return verdict(Verdict.FAIL, "install-shadowed", text, hint)
    if seen.version != expectation.distribution:
        return verdict(Verdict.FAIL, "install-wrong-version", f"sglang {seen.version} in {seen.release}")
    wrong = sorted(
        f"{path} is {'missing' if seen.files.get(path) is None else 'changed'}"
        for path, sha256 in expectation.files.items()
        if seen.files.get(path) != sha256
    )
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        return verdict(Verdict.FAIL, "install-changed-files", "; ".join(wrong[:5]) + more)
    ages = (seen.process_age, seen.link_age)
    if ages[0] is not None and ages[1] is not None and ages[0] > ages[1] + CLOCK_SLACK_S:
        text = f"the process is {ages[0]:.0f} s old, this release is current only since {ages[1]:.0f} s"
        return verdict(Verdict.FAIL, "install-not-running", text, "restart it: specctl restart")
    text = f"sglang {seen.version}, {count} of {count} files equal, release {seen.release}"
    return verdict(Verdict.PASS, "install-equal", text, None)
