"""What is on a lab host, seen without its network, its sshd or specctl's own eyes."""

from __future__ import annotations

import json
from typing import Any

from ..machine import Machine

PROGRAM = r"""
import glob, json, os, re, subprocess, sys, urllib.request
root, server, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def load(path):
    try:
        return json.load(open(path))
    except (OSError, ValueError):
        return None
def answer():
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as a:
            return json.load(a)["version"]
    except Exception:
        return ""
folder = f"{root}/servers/{server}"
link = f"{folder}/current"
states = ("armed", "firing", "fired", "disarmed")
listening = subprocess.run(["ss", "-ltnpH", f"sport = :{port}"], capture_output=True, text=True).stdout
processes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline").read().split("\0")
    except OSError:
        continue
    if "sglang.launch_server" in words and str(port) in words:
        processes.append(int(pid))
good = (load(f"{folder}/good.json") or {}).get("goods", [])
half = []
for path in glob.glob(f"{root}/releases/*"):
    whole = os.path.exists(f"{path}/venv/bin/python") and os.path.exists(f"{path}/dist.json")
    whole = whole and glob.glob(f"{path}/venv/lib/*/site-packages/sglang/__init__.py")
    if os.path.exists(f"{path}/COMPLETE") and not whole:
        half.append(path)
left = []
for top, folders, names in os.walk(root):
    folders[:] = [f for f in folders if f not in ("venv", "uv")]
    for name in names + folders:
        if re.search(r"\.new-\d+$|\.receiving-|^\.removing-|^lock\.old-|\.old-[0-9a-f]{8}$", name):
            left.append(os.path.join(top, name))
units = [p for p in glob.glob("/etc/systemd/system/**/specctl-undo-*", recursive=True)
         + glob.glob("/home/*/.config/systemd/user/**/specctl-undo-*", recursive=True)]
left += glob.glob("/etc/systemd/system/*specctl*.new-*") + glob.glob("/etc/systemd/system/.*receiving*")
cut = []
for path in glob.glob(f"{root}/releases/*/journal.jsonl") + [f"{root}/history.jsonl"]:
    for line in (open(path, "rb").read().splitlines() if os.path.exists(path) else []):
        try:
            json.loads(line)
        except ValueError:
            cut.append([path, line[:60].decode("utf-8", "replace")])
watchers = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline").read().split("\0")
    except OSError:
        continue
    if f"{root}/deadman/watch.py" in words:
        watchers.append(int(pid))
print(json.dumps({
    "version": answer(),
    "listeners": sorted(set(re.findall(r"pid=(\d+)", listening))),
    "processes": processes,
    "current": os.path.basename(os.readlink(link)) if os.path.islink(link) else None,
    "goods": [[g["release"], g["run"]] for g in good],
    "deadman": {s: (load(f"{root}/deadman/{s}.json") or {}).get("run") for s in states},
    "outcome": (load(f"{root}/deadman/fired.json") or {}).get("outcome", ""),
    "lock": load(f"{root}/lock/info.json") if os.path.isdir(f"{root}/lock") else None,
    "pending": load(f"{root}/pending.json"),
    "usable": [os.path.basename(p) for p in glob.glob(f"{root}/releases/*")
               if os.path.exists(f"{p}/COMPLETE") and not os.path.exists(f"{p}/FAILED")],
    "half": half, "left": left, "cut": cut, "undo_units": units, "watchers": watchers,
    "releases": sorted(os.listdir(f"{root}/releases")) if os.path.isdir(f"{root}/releases") else [],
}))
"""


def look(machine: Machine, root: str, server: str, port: int) -> dict[str, Any]:
    """Everything that the checks ask about, of one moment."""
    seen: dict[str, Any] = json.loads(
        machine.run("python3", "-c", PROGRAM, root, server, port).strip().splitlines()[-1]
    )
    return seen


def version_of(release: str | None) -> str:
    """0.5.9+specctl.7-1a2b3c4d -> 0.5.9+specctl.7"""
    return (release or "").rpartition("-")[0]
