"""Look at a host, change nothing, and never fail: what cannot be found out is null, and `problems` says why.

params: root, python (list of interpreters to look at), sudo (bool), models (list of paths or names),
    temporary (list of folders)
answer: one JSON object, see `specctl.host.facts.Facts` for what it becomes
"""

import glob
import grp
import json
import os
import platform
import pwd
import re
import subprocess
import sys
import time
from typing import Any, Callable

params = globals()["params"]
LIMIT = 64 << 10  # bytes of any file that is read
problems = []  # type: list[str]


def said(argv: "list[str]", env: "dict[str, str] | None" = None, seconds: float = 10) -> "str | None":
    """What a command prints, or null when it is not there, fails to start or hangs."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=seconds,
            env=dict(os.environ, LC_ALL="C", **(env or {})),
        )
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append("%s: %s" % (argv[0], error))
        return None
    return done.stdout.decode("utf-8", "replace").strip()


def text_of(path: str) -> "str | None":
    try:
        with open(path, "rb") as handle:
            return handle.read(LIMIT).decode("utf-8", "replace")
    except OSError:
        return None


def json_of(path: str) -> Any:
    text = text_of(path)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def system() -> "dict[str, Any]":
    release = {}
    for line in (text_of("/etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        release[key] = value.strip().strip('"')
    memory = re.search(r"MemTotal:\s+(\d+) kB", text_of("/proc/meminfo") or "")
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        glibc = None
    return {
        "os": release.get("ID"),
        "os_version": release.get("VERSION_ID"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "glibc": glibc.split()[-1] if glibc else None,
        "cpus": os.cpu_count(),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "boot_id": (text_of("/proc/sys/kernel/random/boot_id") or "").strip() or None,
    }


def pythons() -> "list[dict[str, Any]]":
    ask = (
        "import json,sys,importlib.util as u;print(json.dumps({'path':sys.executable,"
        "'version':'.'.join(map(str,sys.version_info[:3])),"
        "'venv':bool(u.find_spec('venv')),'ensurepip':bool(u.find_spec('ensurepip'))}))"
    )
    found = []
    for name in params["python"]:
        lines = (said([name, "-I", "-c", ask]) or "").splitlines()
        try:
            found.append(dict(json.loads(lines[-1]), name=name))
        except (IndexError, ValueError):
            found.append({"name": name, "path": None, "version": None, "venv": False, "ensurepip": False})
    return found


def mount_of(path: str) -> "tuple[str, str]":
    best = ("/", "")
    for line in (text_of("/proc/self/mounts") or "").splitlines():
        words = line.split()
        if len(words) > 3:
            point = words[1].replace("\\040", " ").rstrip("/") + "/"
            if (path.rstrip("/") + "/").startswith(point) and len(point) >= len(best[0]):
                best = (words[1], words[3])
    return best


def folder(purpose: str, path: str) -> "dict[str, Any]":
    there = path
    while not os.path.isdir(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)  # where it would be made
    point, options = mount_of(os.path.realpath(there))
    free = os.statvfs(there)
    return {
        "purpose": purpose,
        "path": path,
        "exists": os.path.isdir(path),
        "mount": point,
        "read_only": "ro" in options.split(","),
        "writable": os.access(there, os.W_OK),
        "noexec": "noexec" in options.split(","),
        "free_bytes": free.f_bavail * free.f_frsize,
        "free_inodes": free.f_favail if free.f_files else None,
    }


def folders() -> "list[dict[str, Any]]":
    wanted = [("root", params["root"])]
    wanted += [("temporary", path) for path in params["temporary"]]
    wanted.append(("shared memory", "/dev/shm"))
    found = []
    for purpose, path in wanted:
        try:
            found.append(folder(purpose, path))
        except OSError as error:
            problems.append("%s: %s" % (path, error))
    return found


def places(root: str) -> "list[dict[str, Any]]":
    """Who owns the root and each folder above it, and who may write there."""
    real = os.path.realpath(root)
    parts = [part for part in real.split("/") if part]
    found = []
    for path in ["/"] + ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]:
        try:
            status = os.stat(path)
        except OSError:
            break
        owner, shared = str(status.st_uid), True
        try:
            entry = pwd.getpwuid(status.st_uid)
            owner = entry.pw_name
            others = set(grp.getgrgid(status.st_gid).gr_mem) - {owner}
            shared = entry.pw_gid != status.st_gid or bool(others)
        except KeyError:
            pass
        mode = status.st_mode & 0o7777
        found.append({"path": path, "owner": owner, "uid": status.st_uid, "mode": mode, "shared": shared})
    return found


def sudo_state() -> str:
    if os.geteuid() == 0:
        return "root"
    try:
        done = subprocess.run(
            ["sudo", "-n", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=15,
        )
    except FileNotFoundError:
        return "missing"
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append("sudo: %s" % error)
        return "refused"
    return "works" if done.returncode == 0 else "refused"


def systemd(user: str) -> "dict[str, Any]":
    version = re.search(r"systemd (\d+)", said(["systemctl", "--version"]) or "")
    runtime = "/run/user/%d" % os.getuid()
    manager = (
        said(["systemctl", "--user", "is-system-running"], {"XDG_RUNTIME_DIR": runtime}) if version else None
    )
    return {
        "systemd": int(version.group(1)) if version else None,
        "system_state": said(["systemctl", "is-system-running"]) if version else None,
        "user_manager": manager or None,
        "linger": os.path.exists("/var/lib/systemd/linger/" + user),
        "supervisord": which("supervisord"),
    }


def which(name: str) -> "str | None":
    for part in os.environ.get("PATH", "/usr/bin:/bin").split(os.pathsep):
        path = os.path.join(part, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def gpus() -> "list[dict[str, Any]] | None":
    fields = ["index", "name", "memory.total", "memory.used", "driver_version", "compute_cap"]
    if which("nvidia-smi") is None:
        return None
    for wanted in (fields, fields[:-1]):  # old drivers do not know the last one
        query = "--query-gpu=" + ",".join(wanted)
        lines = (said(["nvidia-smi", query, "--format=csv,noheader,nounits"], seconds=30) or "").splitlines()
        rows = [[word.strip() for word in line.split(",")] for line in lines]
        rows = [row for row in rows if len(row) == len(wanted) and row[0].isdigit()]
        if rows:
            return [dict(zip(wanted, row)) for row in rows]
    problems.append("nvidia-smi is there but lists no GPU")
    return []


def listening() -> "list[int]":
    ports = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (text_of(name) or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == "0A":
                ports.add(int(words[1].rpartition(":")[2], 16))
    return sorted(ports)


def releases(root: str) -> "list[dict[str, Any]]":
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "releases", "*"))):
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        documents = {n: json_of(os.path.join(path, n)) for n in names if n == "dist.json" or n.isupper()}
        python = os.path.join(path, "venv", "bin", "python")
        found.append(
            {
                "id": os.path.basename(path),
                "entries": names[:100],
                "documents": documents,
                "python": python if os.path.exists(python) else None,
            }
        )
    return found


def servers(root: str) -> "list[dict[str, Any]]":
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "servers", "*"))):
        current = os.path.join(path, "current")
        try:
            target = os.path.basename(os.readlink(current))  # type: str | None
        except OSError:
            target = None
        found.append({"name": os.path.basename(path), "current": target, "resolves": os.path.isdir(current)})
    return found


def lock(root: str) -> "dict[str, Any] | None":
    path = os.path.join(root, "lock")
    if not os.path.lexists(path):
        return None
    files = sorted(glob.glob(os.path.join(glob.escape(path), "*"))) if os.path.isdir(path) else [path]
    return {os.path.basename(name): json_of(name) or text_of(name) for name in files[:10]}


def model(name: str, home: str) -> "dict[str, Any]":
    """The config.json of a model: in its folder, or in the hub's cache when it is a name."""
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.join(home, ".cache", "huggingface"), "hub"
    )
    cached = os.path.join(
        glob.escape(hub), "models--" + name.replace("/", "--"), "snapshots", "*", "config.json"
    )
    for path in [os.path.join(name, "config.json")] + sorted(glob.glob(cached)):
        config = json_of(path)
        if isinstance(config, dict):
            weights = glob.glob(os.path.join(glob.escape(os.path.dirname(path)), "*.safetensors"))
            keep = ("architectures", "model_type", "torch_dtype", "num_hidden_layers", "vocab_size")
            return {
                "name": name,
                "found": path,
                "config": {key: config.get(key) for key in keep},
                "bytes": sum(os.path.getsize(weight) for weight in weights) or None,
            }
    return {"name": name, "found": name if os.path.exists(name) else None, "config": None}


def main() -> "dict[str, Any]":
    user = pwd.getpwuid(os.getuid())
    home = pwd.getpwuid(0).pw_dir if params["sudo"] else user.pw_dir
    root = params["root"]
    answer = {
        "clock": time.time(),
        "user": user.pw_name,
        "uid": os.getuid(),
        "home": home,
        "host_python": platform.python_version(),
        "sudo": sudo_state(),
    }  # type: dict[str, Any]
    parts: dict[str, Callable[[], Any]] = {
        "system": system,
        "pythons": pythons,
        "folders": folders,
        "places": lambda: places(root),
        "services": lambda: systemd(user.pw_name),
        "gpus": gpus,
        "tools": lambda: {n: which(n) for n in ("uv", "ninja", "nvcc", "gcc", "g++", "timeout")},
        "ports": listening,
        "releases": lambda: releases(root),
        "servers": lambda: servers(root),
        "lock": lambda: lock(root),
        "models": lambda: [model(name, home) for name in params["models"]],
    }
    for name in parts:
        try:
            answer[name] = parts[name]()
        except Exception as error:
            answer[name] = None
            problems.append("%s: %s: %s" % (name, type(error).__name__, error))
    answer["problems"] = problems
    return answer


sys.stdout.flush()
print(json.dumps(main()))
