"""The host's own undo: it acts when the operator who restarted a server is not heard from again.

`watch` is the watcher, started on the host when the orders are written, and again by the supervisor when
the host starts (the boot file): it waits for the lease in <root>/lock to run out, then stops the new servers,
puts the old release, unit and secrets back, and starts the old servers. A promise made before a restart of
the host counts for nothing: then it acts at once.

Exactly one side acts: the orders' file is renamed, armed -> firing or armed -> disarmed, under one lock.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from specctl.release.onhost.common import (
    boot_id,
    boot_seconds,
    link_target,
    put_secret_back,
    read_bytes,
    read_json,
    remove_quietly,
    write_atomically,
    write_json,
)

STATES = ("armed", "firing", "fired", "disarmed")
TRIES = 360  # of an undo that fails, for a disk that is full or read-only for a while
PAUSE_S = 5.0  # between them
ROUNDS = 3  # a step of the lost operator may still have been on its way while the first one was undone


def state_file(root: str, state: str) -> str:
    return os.path.join(root, "deadman", state + ".json")


@contextlib.contextmanager
def guarded(root: str) -> Iterator[None]:
    """Only one process at a time changes the state of the orders."""
    guard = os.open(os.path.join(root, "deadman", ".guard"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def watched(orders: dict[str, Any]) -> bool:
    """Whether the watcher that the orders name is alive; its process id may belong to another one by now."""
    pid = orders.get("pid", 0)
    if pid <= 0 or orders.get("pid_boot", boot_id()) != boot_id():
        return False
    return b"watch.py" in (read_bytes(f"/proc/{pid}/cmdline") or b"")


def reserve_file(root: str, whose: str) -> str:
    """Room that an undo gives free before it writes: the disk may be full by then.

    `whose`: operator or host. Each has its own: what the operator gave free may be gone when it is lost.
    """
    return os.path.join(root, "deadman", f"reserve-{whose}")


def give_room_back(root: str) -> None:
    for whose in ("operator", "host"):
        remove_quietly(reserve_file(root, whose))


def forget_boot(orders: dict[str, Any]) -> None:
    """No watcher of these orders at the next start of the host."""
    for path in orders.get("boot", {}):
        with contextlib.suppress(OSError):  # one that stays finds nothing to do
            remove_quietly(path)


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # the log may be on the disk that is full
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


def promised(root: str, run: str) -> float | None:
    """Until when, by the clock since this boot, the operator of `run` promised to be heard from; None: no
    lease of that run and of this boot, so it was given back or taken away without a disarm."""
    lease = read_json(os.path.join(root, "lock", "lease.json"), {})
    holder = read_json(os.path.join(root, "lock", "info.json"), {}).get("run")
    if holder == run and lease.get("boot") == boot_id() and "until" in lease:
        return float(lease["until"])
    return None


def overdue(root: str, run: str, grace_s: float, since: float) -> bool:
    """Whether the operator of `run` is silent for longer than promised; `since`: when the watcher began."""
    until = promised(root, run)
    return boot_seconds() > (since if until is None else until) + grace_s


def put_back(root: str, server: dict[str, Any]) -> None:
    """Old unit files, old secrets, old release. Starting it comes after all servers are put back."""
    current = os.path.join(root, "servers", server["name"], "current")
    if server["previous"] is None:
        remove_quietly(current)
    elif link_target(current) != server["previous"]:
        temporary = f"{current}.new-{os.getpid()}"
        remove_quietly(temporary)
        os.symlink(os.path.join("..", "..", "releases", server["previous"]), temporary)
        os.replace(temporary, current)
    for file in server["files"]:
        if file["data"] is None:
            remove_quietly(file["path"])
        elif read_bytes(file["path"]) != base64.b64decode(
            file["data"]
        ):  # a full disk stops no start for nothing
            write_atomically(file["path"], base64.b64decode(file["data"]), file["mode"])
    folder = os.path.join(root, "servers", server["name"])
    kept = read_json(os.path.join(folder, f"secrets-{server['secrets']}.json"))
    if isinstance(kept, dict):
        for path, secret in kept.items():
            put_secret_back(path, secret)
        write_json(os.path.join(folder, "secrets.json"), {"digest": server["secrets"]}, 0o600)


def is_back(root: str, server: dict[str, Any]) -> bool:
    """What was put back is still there: no late step of the operator has changed it again."""
    current = os.path.join(root, "servers", server["name"], "current")
    files = [(f["path"], f["data"] and base64.b64decode(f["data"])) for f in server["files"]]
    return link_target(current) == server["previous"] and all(read_bytes(p) == data for p, data in files)


def passed(root: str, orders: dict[str, Any]) -> dict[str, bool]:
    """Server -> whether its new release had passed, and that was written down, before the silence."""
    found = {}
    for server in orders["servers"]:
        goods = read_json(os.path.join(root, "servers", server["name"], "good.json"), {}).get("goods", [])
        found[server["name"]] = bool(goods) and goods[-1].get("run") == orders["run"]
    return found


def leave(root: str, orders: dict[str, Any]) -> None:
    """Nothing is left to undo: as if the operator had said so."""
    say("the new release had passed, left as it is")
    os.rename(state_file(root, "firing"), state_file(root, "disarmed"))
    give_room_back(root)
    forget_boot(orders)


def undo(root: str, orders: dict[str, Any]) -> tuple[bool, str]:
    """Carry the orders out; whether what served before runs again, and what became of each server."""
    give_room_back(root)
    proven = passed(root, orders)
    todo = [s for s in reversed(orders["servers"]) if not proven[s["name"]]]
    said = [f"{name}: the new release had passed, left as it is" for name, kept in proven.items() if kept]
    whole = True
    words: list[str] = []
    for _ in range(ROUNDS):
        whole, words = undo_once(root, orders, todo)
        if whole and all(is_back(root, server) for server in todo):
            break
        say(f"undoing once more: {'; '.join(words)}")
    return whole, "; ".join(said + words)


def undo_once(root: str, orders: dict[str, Any], todo: list[dict[str, Any]]) -> tuple[bool, list[str]]:
    whole, said = True, []
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
    return whole, said


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
    forget_boot(orders)


def take(root: str, run: str) -> dict[str, Any] | None:
    """Become the watcher of a run: its orders, None when there is nothing to do, or somebody does it.

    `state` in the answer: armed (wait for the operator) or firing (act now).
    """
    with guarded(root):
        for state in ("armed", "firing"):
            orders: dict[str, Any] = read_json(state_file(root, state), {})
            if orders.get("run") != run:
                continue
            if watched(orders):
                return None
            restarted = orders.get("armed_boot", boot_id()) != boot_id()
            orders.update(pid=os.getpid(), pid_boot=boot_id())
            if state == "armed" and restarted and not promised(root, run):
                os.rename(state_file(root, "armed"), state_file(root, "firing"))
                state = "firing"
            with contextlib.suppress(OSError):  # a full disk is no reason to wait
                write_json(state_file(root, state), orders, 0o600)
            return {**orders, "state": state}
    return None


def claim(root: str, run: str) -> bool:
    """The operator has not returned: from here on the host acts."""
    with guarded(root):
        if read_json(state_file(root, "armed"), {}).get("run") != run:
            return False
        os.rename(state_file(root, "armed"), state_file(root, "firing"))
        return True


def watch(root: str, run: str) -> None:
    """Wait until the operator is overdue, then undo. Returns when that is done, or not needed any more."""
    orders = persist(lambda: take(root, run))
    if orders is None:
        return
    since = boot_seconds()
    while orders["state"] == "armed":
        if overdue(root, run, orders["grace_s"], since) and persist(lambda: claim(root, run)):
            break
        if read_json(state_file(root, "armed"), {}).get("run") != run:
            return
        time.sleep(orders["poll_s"])
    say(f"run {run}: the operator has not returned, undoing")

    done: list[tuple[bool, str]] = []

    def undo_unless_passed() -> None:
        if not all(passed(root, orders).values()):
            done.append(undo(root, orders))

    persist(undo_unless_passed)
    if not done:
        persist(lambda: leave(root, orders))
        return
    whole, outcome = done[-1]
    say(outcome)
    # by itself: what cannot be written down yet does not stop a server that runs again
    persist(lambda: finish(root, orders, whole, outcome))


def persist(act: Callable[[], Any]) -> Any:
    """Again while it fails: nobody else is there to do it, and a full disk may get room."""
    for _ in range(TRIES):
        try:
            return act()
        except Exception as exc:
            say(f"not yet: {type(exc).__name__}: {exc}")
            time.sleep(PAUSE_S)
    return act()
