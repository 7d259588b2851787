"""Ask a server on this host whether it is up. params: url, wait_s (seconds)

Whatever listens on the port while the server starts may say anything, or never come to an end.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import urllib.parse
from typing import Any


def ask(url: str, wait_s: float, box: dict[str, Any]) -> None:
    """The status of /health; 0 and why not. No proxy, no redirect: the address is this host's own."""
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port
    try:
        if parts.scheme == "https":
            trusting = ssl.create_default_context()
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE  # whatever it shows
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=wait_s, context=trusting
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=wait_s)
        connection.request("GET", "/health", headers={"Connection": "close"})
        answer = connection.getresponse()
        box.update(status=answer.status, reason=answer.reason)
    except (OSError, http.client.HTTPException, ValueError) as exc:
        box["why"] = f"{exc or type(exc).__name__}"[:300]


def main(params: dict[str, Any]) -> dict[str, Any]:
    box: dict[str, Any] = {}
    worker = threading.Thread(target=ask, args=(params["url"], params["wait_s"], box), daemon=True)
    worker.start()
    worker.join(params["wait_s"] + 1.0)
    if "status" in box:
        return {"status": box["status"], "why": "" if box["status"] == 200 else str(box["reason"])[:300]}
    return {"status": 0, "why": box.get("why", "no whole answer in time")}
