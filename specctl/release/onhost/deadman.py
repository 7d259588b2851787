"""What the operator does with the host's own undo (see `watcher`): arm it, claim it, wait for it.

params: root, op (arm | disarm | settle | make_room), run, and for arm: orders {..}, launch [argv prefix],
        boot {path: text, or {"link": target}}, source (of the watcher's program); for settle: wait_s
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any

from specctl.release.onhost.common import (
    boot_id,
    link_target,
    read_json,
    remove_quietly,
    sync_folder,
    write_atomically,
    write_json,
)
from specctl.release.onhost.watcher import (
    STATES,
    finish,
    forget_boot,
    give_room_back,
    guarded,
    reserve_file,
    state_file,
    watched,
)

RESERVE = 4 << 20  # bytes, of each of the two


def arm(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write the orders and start the watcher; a second call for the same run changes nothing."""
    folder = os.path.join(root, "deadman")
    os.makedirs(folder, exist_ok=True)
    armed = read_json(state_file(root, "armed"), {})
    if armed.get("run") == params["run"] and watched(armed):
        return {"armed": True}
    for state in STATES:
        forget_boot(read_json(state_file(root, state), {}))
        remove_quietly(state_file(root, state))
    program = os.path.join(folder, "watch.py")
    write_atomically(program, params["source"], 0o700)
    for whose in ("operator", "host"):
        write_atomically(reserve_file(root, whose), os.urandom(RESERVE), 0o600)
    command = [sys.executable, "-I", program, root, params["run"]]
    boot = params.get("boot", {})
    orders = {**params["orders"], "run": params["run"], "pid": 0, "armed_boot": boot_id(), "boot": boot}
    write_json(state_file(root, "armed"), orders, 0o600)
    try:
        write_boot(boot, command)
        pid = launch(root, params, command)
    except BaseException:
        remove_quietly(state_file(root, "armed"))
        forget_boot(orders)
        raise
    return {"armed": True, "pid": pid}


def write_boot(boot: dict[str, Any], command: list[str]) -> None:
    """The files that start the watcher when the host starts; `@COMMAND@` in them becomes its command."""
    for path, what in boot.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(what, str):
            write_atomically(path, what.replace("@COMMAND@", " ".join(map(quoted, command))))
            continue
        remove_quietly(path)
        os.symlink(what["link"], path)
        sync_folder(os.path.dirname(path))


def quoted(word: str) -> str:
    """A word of a command, as both systemd and supervisor read it."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def launch(root: str, params: dict[str, Any], command: list[str]) -> int:
    """Start the watcher and wait for its sign of life; its process id."""
    log_file = os.path.join(root, "deadman", "watch.log")
    with open(log_file, "ab") as log:
        started = subprocess.Popen(
            [*params["launch"], *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    for _ in range(100):
        # it may have acted already, if the lease had run out before it began
        for state in STATES:
            seen = read_json(state_file(root, state), {})
            if seen.get("run") == params["run"] and (seen.get("pid") or state != "armed"):
                return int(seen.get("pid", 0))
        if started.poll() not in (None, 0):
            break
        time.sleep(0.1)
    with open(log_file, encoding="utf-8", errors="replace") as log_text:
        raise RuntimeError("the undo timer did not start: " + log_text.read()[-500:].strip())


def disarm(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Claim the orders. `fired` in the answer means that the host has undone, or is undoing, by itself."""
    if not os.path.isdir(os.path.join(root, "deadman")):
        return {"disarmed": False, "fired": False}
    with guarded(root):
        armed = read_json(state_file(root, "armed"), {})
        if armed and params["run"] in (armed.get("run"), None):
            os.rename(state_file(root, "armed"), state_file(root, "disarmed"))
            sync_folder(os.path.join(root, "deadman"))
            forget_boot(armed)
            give_room_back(root)
            return {"disarmed": True, "fired": False}
        firing = read_json(state_file(root, "firing"), {})
        if firing and not watched(firing):
            text = "the undo was cut off: the host was restarted, or the watcher was ended"
            finish(root, firing, False, text)
        for state in ("firing", "fired"):
            found = read_json(state_file(root, state), {})
            if found and params["run"] in (found.get("run"), None):
                told = {key: found.get(key) for key in ("outcome", "whole")}
                return {"disarmed": False, "fired": True, "state": state, **told}
    return {"disarmed": False, "fired": False}


def settle(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Wait for a timer that is firing, so that nobody works beside it; at last, take over from it."""
    end = time.monotonic() + params["wait_s"]
    while os.path.exists(state_file(root, "firing")) and time.monotonic() < end:
        time.sleep(0.2)
    with guarded(root):
        firing = read_json(state_file(root, "firing"), {})
        if firing and watched(firing):
            with contextlib.suppress(ProcessLookupError):
                os.kill(firing["pid"], signal.SIGKILL)
        if firing:
            text = f"the undo had not ended after {params['wait_s']:.0f} s and was ended"
            finish(root, firing, False, text)
    servers = os.path.join(root, "servers")
    current = {n: link_target(os.path.join(servers, n, "current")) for n in os.listdir(servers)}
    return {"firing": os.path.exists(state_file(root, "firing")), "current": current}


def main(params: dict[str, Any]) -> dict[str, Any]:
    root, op = params["root"], params["op"]
    if op == "arm":
        return arm(root, params)
    if op == "disarm":
        return disarm(root, params)
    if op == "make_room":
        return {"made": remove_quietly(reserve_file(root, "operator"))}
    return settle(root, params)
