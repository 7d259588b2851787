"""Runs on the host: one short question whether the server is up."""

from __future__ import annotations

from specctl.evidence.onhost.web import answer, client

if __name__ == "__main__":
    _params = globals()["params"]
    answer({**client(_params).ask("/health", None, _params["wait_s"]), "json": None})
