"""Runs on the host: look at a server, after changing its thresholds where `values` are given."""

from __future__ import annotations

from specctl.evidence.onhost.web import answer, client
from specctl.tune.onhost.switch import change, look, settled

if __name__ == "__main__":
    _params = globals()["params"]
    _web = client(_params)
    _values = _params.get("values")
    _said = change(_web, _values) if _values else {"refused": None, "answered": True}
    _seen = look(_web) if not _values or _said["refused"] else settled(_web, _values)
    answer({**_said, "look": _seen})
