"""Runs on the host: talk to supervisord over its UNIX socket (XML-RPC), and start the daemon.

Orders that were already carried out are no error, so that a second run does no harm.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
import xmlrpc.client
from typing import Any

# fault codes of supervisor.xmlrpc.Faults
BAD_NAME, NOT_RUNNING, ALREADY_STARTED, ALREADY_ADDED = 10, 70, 60, 90


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def call(path: str, method: str, *args: Any) -> Any:
    """One RPC. Raises OSError when nobody listens, xmlrpc.client.Fault when supervisord refuses."""
    connection = UnixConnection(path)
    try:
        body = xmlrpc.client.dumps(args, "supervisor." + method)
        connection.request("POST", "/RPC2", body.encode(), {"Content-Type": "text/xml"})
        data = connection.getresponse().read(1 << 22)
    finally:
        connection.close()
    return xmlrpc.client.loads(data)[0][0]


def quiet(path: str, method: str, *args: Any, ok: tuple[int, ...] = ()) -> Any:
    """An RPC whose named faults are no error."""
    try:
        return call(path, method, *args)
    except xmlrpc.client.Fault as fault:
        if fault.faultCode in ok:
            return None
        raise


def answers(path: str) -> bool:
    try:
        call(path, "getState")
        return True
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return False


def ensure(params: dict[str, Any]) -> dict[str, Any]:
    """Start supervisord if it does not answer. params: socket, daemon, conf."""
    if answers(params["socket"]):
        return {"started": False}
    done = subprocess.run(
        [params["daemon"], "-c", params["conf"]], stdin=subprocess.DEVNULL, capture_output=True, cwd="/"
    )
    for _ in range(50):
        if answers(params["socket"]):
            return {"started": True}
        time.sleep(0.2)
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return {"error": f"supervisord does not answer (exit code {done.returncode}): {text[-2000:]}"}


def info(params: dict[str, Any]) -> dict[str, Any]:
    """What supervisord knows of one program, and the start time of its process."""
    if not answers(params["socket"]):
        return {"daemon": False, "file": os.path.exists(params["file"])}
    found = quiet(params["socket"], "getProcessInfo", params["name"], ok=(BAD_NAME,))
    if found is None:
        return {"daemon": True, "known": False, "file": os.path.exists(params["file"])}
    try:
        with open(f"/proc/{found['pid']}/stat", encoding="utf-8", errors="replace") as handle:
            ticks = handle.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        ticks = ""
    return {"daemon": True, "known": True, "file": True, "ticks": ticks, "info": found}


def start(params: dict[str, Any]) -> dict[str, Any]:
    """Make supervisord take the program's present configuration, and start it."""
    path, name = params["socket"], params["name"]
    added, changed, removed = call(path, "reloadConfig")[0]
    if name in changed or name in removed:
        quiet(path, "stopProcess", name, True, ok=(NOT_RUNNING, BAD_NAME))
        quiet(path, "removeProcessGroup", name, ok=(BAD_NAME,))
    if name in added or name in changed:
        quiet(path, "addProcessGroup", name, ok=(ALREADY_ADDED,))
    try:
        quiet(path, "startProcess", name, False, ok=(ALREADY_STARTED,))
    except xmlrpc.client.Fault as fault:
        return {"error": fault.faultString}
    return {}


def stop(params: dict[str, Any]) -> dict[str, Any]:
    """Order a stop and return at once; also takes back a start that is being retried."""
    if answers(params["socket"]):
        quiet(params["socket"], "stopProcess", params["name"], False, ok=(NOT_RUNNING, BAD_NAME))
    return {}


def remove(params: dict[str, Any]) -> dict[str, Any]:
    """Forget a stopped program."""
    if answers(params["socket"]):
        quiet(params["socket"], "removeProcessGroup", params["name"], ok=(BAD_NAME,))
        call(params["socket"], "reloadConfig")
    return {}


OPS = {"ensure": ensure, "info": info, "start": start, "stop": stop, "remove": remove}


def main(params: dict[str, Any]) -> dict[str, Any]:
    """Run one order; a refusal comes back as {"error": text}."""
    try:
        return OPS[params["op"]](params)
    except xmlrpc.client.Fault as fault:
        return {"error": fault.faultString}
    except (OSError, http.client.HTTPException) as exc:
        return {"error": f"supervisord does not answer on {params['socket']}: {exc}"}


if __name__ == "__main__":
    print(json.dumps(main(globals()["params"]), default=str))
