"""Programs that run on the host to collect evidence: standard library only, sent by `Host.script`."""

from __future__ import annotations

from specctl.service.onhost import joined


def source(*names: str) -> str:
    """The text of these programs as one, e.g. source("web", "alive"). The last one runs."""
    return joined(__name__, names)
