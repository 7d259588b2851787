"""Ask a server on this host whether it is up. params: url, wait_s (seconds)"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import Any


def main(params: dict[str, Any]) -> dict[str, Any]:
    # no proxy, and whatever certificate it shows: the address is this host's own
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    )
    try:
        with opener.open(params["url"] + "/health", timeout=params["wait_s"]) as answer:
            return {"status": answer.status, "why": ""}
    except urllib.error.HTTPError as exc:
        return {"status": exc.code, "why": str(exc.reason)}
    except (OSError, ValueError) as exc:
        return {"status": 0, "why": str(exc)}
