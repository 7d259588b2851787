"""Programs that run on the host to look at a server, to change its thresholds and to put load on it."""

from __future__ import annotations

from importlib import resources

_WEB = "specctl.evidence.onhost"


def source(*names: str) -> str:
    """What `specctl.evidence.onhost` has for it, the HTTP client first, then these programs, as one text.

    Only the last may have a main block.
    """
    files = [resources.files(_WEB).joinpath(f"{name}.py") for name in ("web", "generator")]
    files += [resources.files(__package__).joinpath(f"{name}.py") for name in names]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if not line.startswith(("from __future__", "from specctl."))]
    return "\n".join(["from __future__ import annotations", *kept, ""])
