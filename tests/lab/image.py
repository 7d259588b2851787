"""The root file system that all hosts share: a minimal Debian, built once and kept in the lab's folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .shell import run

SUITE = "bookworm"  # its python3 is 3.11
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "dbus-user-session",
    "libpam-systemd",
    "libnss-systemd",
    "openssh-server",
    "openssh-sftp-server",
    "python3",
    "python3-venv",
    "sudo",
    "iproute2",
    "procps",
    "less",
    "libnuma1",
    "libgomp1",
    "libfaketime",
)
# Debian package -> a program that it brings, on the machine that carries the lab
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "e2fsprogs": "mkfs.ext4",
    "iptables": "iptables",
    "ethtool": "ethtool",
    "util-linux": "nsenter",
}
SUDO_PASSWORD = "labpw"  # of the user `ops`, whom sudo asks; `deploy` is not asked
SCRIPT = Path(__file__).with_name("customize.sh")


def folder() -> Path:
    """Where the lab keeps its image and its running hosts; SPECCTL_LAB_DIR overrides it."""
    chosen = os.environ.get("SPECCTL_LAB_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / ".lab"


def why_not() -> str | None:
    """One line that says why no lab can run here, or None."""
    if sys.platform != "linux":
        return "the host lab needs Linux namespaces"
    if os.geteuid() != 0:
        return "the host lab needs root (namespaces, loop devices, systemd-nspawn)"
    if cgroup_root() is None:
        return "the host lab needs a mounted cgroup2 hierarchy"
    if missing_tools() and not shutil.which("apt-get"):
        return f"the host lab needs {', '.join(missing_tools())}, and there is no apt-get to install them"
    return None


def missing_tools() -> list[str]:
    """Debian packages whose program is not on this machine."""
    return [package for package, program in TOOLS.items() if not shutil.which(program)]


def cgroup_root() -> Path | None:
    """Where the version 2 hierarchy of control groups is mounted."""
    for path in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (path / "cgroup.procs").exists():
            return path
    return None


@contextmanager
def alone(lock: str) -> Iterator[None]:
    """Run a block in one process at a time; `lock` names what it guards."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / f"{lock}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def prepare() -> Path:
    """Install the tools and build the image where they are missing; return the image's folder."""
    home = folder()
    with alone("prepare"):
        missing = missing_tools()
        if missing:
            run("apt-get", "update")
            install = ("apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
            run("env", "DEBIAN_FRONTEND=noninteractive", *install, *missing)
        return _build(home)


def _build(home: Path) -> Path:
    image, stamp = home / "base", home / "base.stamp"
    recipe = "\n".join([SUITE, *PACKAGES, SUDO_PASSWORD, SCRIPT.read_text()])
    wanted = hashlib.sha256(recipe.encode()).hexdigest()
    if image.is_dir() and stamp.exists() and stamp.read_text() == wanted:
        return image
    fresh = home / "base.new"
    run("rm", "-rf", "--one-file-system", fresh, image)
    hook = f'sh {shlex.quote(str(SCRIPT))} "$1" {SUDO_PASSWORD}'
    excluded = ("doc", "man", "locale", "info")
    run("mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"', f"--customize-hook={hook}",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in excluded), SUITE, fresh)  # fmt: skip
    fresh.rename(image)
    stamp.write_text(wanted)
    return image
