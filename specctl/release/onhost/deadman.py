"""The host's own undo: it acts when the operator who restarted a server is not heard from again.

As a program of the operator (`op`): arm (write the orders, start the watcher), disarm, settle (wait for one
that is firing). As the watcher, started on the host with `watch`: wait for the lease in <root>/lock to run
out, then stop the new servers, put the old release, unit and secrets back, and start the old servers.

Exactly one side acts: the orders' file is renamed, armed -> firing or armed -> disarmed, and only one of two
renames can succeed.

params: root, op, run, and for arm: orders {..}, launch [argv prefix], source (of this program)
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import Any

from specctl.release.onhost.common import (
    boot_id,
    boot_seconds,
    link_target,
    put_secret_back,
    read_json,
    remove_quietly,
    sync_folder,
    write_atomically,
    write_json,
)

STATES = ("armed", "firing", "fired", "disarmed")


def state_file(root: str, state: str) -> str:
    return os.path.join(root, "deadman", state + ".json")


def arm(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Write the orders and start the watcher; a second call for the same run changes nothing."""
    folder = os.path.join(root, "deadman")
    os.makedirs(folder, exist_ok=True)
    armed = read_json(state_file(root, "armed"), {})
    if armed.get("run") == params["run"] and alive(armed.get("pid", 0)):
        return {"armed": True}
    for state in STATES:
        remove_quietly(state_file(root, state))
    program = os.path.join(folder, "watch.py")
    write_atomically(program, params["source"], 0o700)
    orders = {**params["orders"], "run": params["run"], "pid": 0}
    write_json(state_file(root, "armed"), orders, 0o600)
    with open(os.path.join(folder, "watch.log"), "ab") as log:
        started = subprocess.Popen(
            [*params["launch"], sys.executable, "-I", program, root, params["run"]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    for _ in range(100):
        # it may have acted already, if the lease had run out before it began
        for state in ("armed", "firing", "fired"):
            seen = read_json(state_file(root, state), {})
            if seen.get("run") == params["run"] and (seen.get("pid") or state != "armed"):
                return {"armed": True, "pid": seen.get("pid", 0)}
        if started.poll() not in (None, 0):
            break
        time.sleep(0.1)
    remove_quietly(state_file(root, "armed"))
    with open(os.path.join(folder, "watch.log"), encoding="utf-8", errors="replace") as log_text:
        raise RuntimeError("the undo timer did not start: " + log_text.read()[-500:].strip())


def alive(pid: int) -> bool:
    return pid > 0 and os.path.exists(f"/proc/{pid}")


def disarm(root: str, params: dict[str, Any]) -> dict[str, Any]:
    """Claim the orders. `fired` in the answer means that the host has undone, or is undoing, by itself."""
    armed = read_json(state_file(root, "armed"), {})
    if armed and params["run"] in (armed.get("run"), None):
        try:
            os.rename(state_file(root, "armed"), state_file(root, "disarmed"))
            sync_folder(os.path.join(root, "deadman"))
            return {"disarmed": True, "fired": False}
        except FileNotFoundError:
            pass
    firing = read_json(state_file(root, "firing"), {})
    if firing and not alive(firing.get("pid", 0)):
        finish(root, firing, False, "the undo was cut off: the host was restarted, or the watcher was ended")
    for state in ("firing", "fired"):
        found = read_json(state_file(root, state), {})
        if found and params["run"] in (found.get("run"), None):
            told = {key: found.get(key) for key in ("outcome", "whole")}
            return {"disarmed": False, "fired": True, "state": state, **told}
    return {"disarmed": False, "fired": False}


def say(text: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, flush=True)


def call(argv: list[str], timeout_s: float) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return 1, str(exc)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()[-300:]


def overdue(root: str, run: str, grace_s: float, since: float) -> bool:
    """Whether the operator of `run` has been silent for longer than promised, by the clock since boot."""
    lease = read_json(os.path.join(root, "lock", "lease.json"), {})
    holder = read_json(os.path.join(root, "lock", "info.json"), {}).get("run")
    if holder == run and lease.get("boot") == boot_id() and "until" in lease:
        return bool(boot_seconds() > float(lease["until"]) + grace_s)
    # no lease of that run: given back or taken away without a disarm
    return boot_seconds() > since + grace_s


def put_back(root: str, server: dict[str, Any]) -> None:
    """Old unit files, old secrets, old release. Starting it comes after all servers are put back."""
    for file in server["files"]:
        if file["data"] is None:
            remove_quietly(file["path"])
        else:
            write_atomically(file["path"], base64.b64decode(file["data"]), file["mode"])
    folder = os.path.join(root, "servers", server["name"])
    kept = read_json(os.path.join(folder, f"secrets-{server['secrets']}.json"))
    if isinstance(kept, dict):
        for path, secret in kept.items():
            put_secret_back(path, secret)
        write_json(os.path.join(folder, "secrets.json"), {"digest": server["secrets"]}, 0o600)
    current = os.path.join(folder, "current")
    if server["previous"] is None:
        remove_quietly(current)
    else:
        temporary = f"{current}.new-{os.getpid()}"
        remove_quietly(temporary)
        os.symlink(os.path.join("..", "..", "releases", server["previous"]), temporary)
        os.replace(temporary, current)


def undo(root: str, orders: dict[str, Any]) -> tuple[bool, str]:
    """Carry the orders out; whether what served before runs again, and what became of each server."""
    whole = True
    proven = {}
    for server in orders["servers"]:
        goods = read_json(os.path.join(root, "servers", server["name"], "good.json"), {}).get("goods", [])
        proven[server["name"]] = bool(goods) and goods[-1].get("run") == orders["run"]
    todo = [s for s in reversed(orders["servers"]) if not proven[s["name"]]]
    said = [f"{name}: the new release had passed, left as it is" for name, kept in proven.items() if kept]
    for server in todo:
        for argv in server["stop"]:
            code, text = call(argv, orders["stop_s"])
            say(f"{argv}: {code} {text}")
        put_back(root, server)
    for argv in orders["reload"]:
        code, text = call(argv, 60.0)
        say(f"{argv}: {code} {text}")
    for server in todo:
        if not server["start"]:
            why = "as it was before" if server["previous"] else "there was no earlier release"
            said.append(f"{server['name']}: stopped, {why}")
            continue
        for argv in server["start"]:
            code, text = call(argv, orders["stop_s"])
            say(f"{argv}: {code} {text}")
        up = runs(server["check"])
        whole = whole and up
        word = "runs" if up else "could not be started"
        said.append(f"{server['name']}: {server['previous']} {word} again")
    return whole, "; ".join(said)


def runs(check: list[str], tries: int = 15) -> bool:
    """Whether the supervisor calls it running, three looks in a row within half a minute."""
    row = 0
    for _ in range(tries):
        row = row + 1 if call(check, 30.0)[0] == 0 else 0
        if row == 3:
            return True
        time.sleep(2.0)
    return False


def finish(root: str, orders: dict[str, Any], whole: bool, outcome: str) -> None:
    entry = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "run": orders["run"],
        "command": "undo by the host",
        "by": "the host's own timer",
        "release": orders["release"],
        "result": "rolled back" if whole else "down",
        "detail": outcome,
    }
    for path, record in (
        (os.path.join(root, "history.jsonl"), entry),
        (orders["journal"], {**entry, "event": "undone-by-host"}),
    ):
        with open(path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(record, sort_keys=True) + "\n")
    fired = {"run": orders["run"], "outcome": outcome, "whole": whole, "release": orders["release"]}
    write_json(state_file(root, "fired"), fired, 0o600)
    remove_quietly(state_file(root, "firing"))


def watch(root: str, run: str) -> None:
    orders = read_json(state_file(root, "armed"), {})
    if orders.get("run") != run:
        return
    orders["pid"] = os.getpid()
    write_json(state_file(root, "armed"), orders, 0o600)
    since = boot_seconds()
    while not overdue(root, run, orders["grace_s"], since):
        time.sleep(orders["poll_s"])
        if read_json(state_file(root, "armed"), {}).get("run") != run:
            return
    try:
        os.rename(state_file(root, "armed"), state_file(root, "firing"))
    except FileNotFoundError:
        return
    say(f"run {run}: the operator has not returned, undoing")
    try:
        whole, outcome = undo(root, orders)
    except Exception as exc:  # whatever it is, it must be written down: nobody is watching
        whole, outcome = False, f"the undo failed: {exc}"
    say(outcome)
    finish(root, orders, whole, outcome)


def main(params: dict[str, Any]) -> dict[str, Any]:
    root = params["root"]
    if params["op"] == "arm":
        return arm(root, params)
    if params["op"] == "disarm":
        return disarm(root, params)
    # settle: a timer that is firing right now is waited for, so that nobody works beside it
    end = time.monotonic() + params["wait_s"]
    while os.path.exists(state_file(root, "firing")) and time.monotonic() < end:
        time.sleep(0.2)
    servers = os.path.join(root, "servers")
    current = {n: link_target(os.path.join(servers, n, "current")) for n in os.listdir(servers)}
    return {"firing": os.path.exists(state_file(root, "firing")), "current": current}
