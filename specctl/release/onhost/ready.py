"""Ask a server on this host whether it is up. params: url, wait_s (seconds)"""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any


def main(params: dict[str, Any]) -> dict[str, Any]:
    # no proxy: the address is this host's own
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(params["url"] + "/health", timeout=params["wait_s"]) as answer:
            return {"status": answer.status, "why": ""}
    except urllib.error.HTTPError as exc:
        return {"status": exc.code, "why": str(exc.reason)}
    except (OSError, ValueError) as exc:
        return {"status": 0, "why": str(exc)}
