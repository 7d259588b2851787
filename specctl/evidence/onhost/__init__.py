"""Programs that run on the host to collect evidence: standard library only, sent by `Host.script`."""

from __future__ import annotations

from importlib import resources


def source(*names: str) -> str:
    """The text of these programs one after the other, as one program; the last one runs.

    Their imports of each other are left out, because they then share one namespace.
    """
    parts = [
        resources.files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8") for name in names
    ]
    lines = [line for part in parts for line in part.splitlines()]
    kept = [line for line in lines if not line.startswith(("from __future__", "from specctl."))]
    return "\n".join(["from __future__ import annotations", *kept, ""])
