"""One host of the lab: its disk, its boot, its power button, and a back door that needs no network."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import image, network
from .shell import LabError, alive, children, run, wait_until

BOOT = Path(__file__).with_name("boot.sh")


@dataclass(frozen=True)
class Bind:
    """A folder of this machine, seen inside the host; read-only unless said otherwise."""

    source: str
    target: str
    writable: bool = False

    @property
    def option(self) -> str:
        return f"--bind{'' if self.writable else '-ro'}={self.source}:{self.target}"


class Machine:
    """A host. Everything about it is derived from its folder, so that any process can pick it up."""

    def __init__(self, lab: str, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.name = folder.name  # h1, h2, ...
        self.number = int(self.name[1:])
        self.cable = network.Cable(lab, self.number)
        self.address = self.cable.address
        root = image.cgroup_root()
        if root is None:
            raise LabError("no cgroup2 hierarchy")
        self.cgroup = root / lab / self.name

    # -- making it

    def create(self, *, disk: str, binds: Sequence[Bind], authorized_key: str) -> None:
        """Make disk, identity, keys and network; `disk` is a sparse size such as 1G."""
        self.folder.mkdir(parents=True)
        (self.folder / "binds.json").write_text(json.dumps([asdict(bind) for bind in binds]))
        run("truncate", "-s", disk, self.folder / "disk.img")
        lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        run("mkfs.ext4", "-q", "-m", "0", "-E", lazy, "-F", self.folder / "disk.img")
        self._seed(authorized_key)
        self.cable.plug()

    def _seed(self, authorized_key: str) -> None:
        seed = self.folder / "seed"
        (seed / "etc/ssh").mkdir(parents=True)
        make_key(seed / "etc/ssh/ssh_host_ed25519_key", self.name)
        self.host_key_file.write_text((seed / "etc/ssh/ssh_host_ed25519_key.pub").read_text())
        (seed / "etc/machine-id").write_text(os.urandom(16).hex() + "\n")
        (seed / "etc/hostname").write_text(self.name + "\n")
        (seed / "etc/hosts").write_text(f"127.0.0.1 localhost {self.name}\n")
        for line in (image.folder() / "base/etc/passwd").read_text().splitlines():
            user, _, uid, gid, _, home, _ = line.split(":")
            if user in ("root", "deploy", "ops"):
                keys = seed / home.lstrip("/") / ".ssh" / "authorized_keys"
                keys.parent.mkdir(parents=True)
                keys.write_text(authorized_key)
                for path in (keys, keys.parent, keys.parent.parent):
                    path.chmod(0o600 if path is keys else 0o700)
                    os.chown(path, int(uid), int(gid))

    @property
    def host_key_file(self) -> Path:
        return self.folder / "host_key.pub"

    @property
    def host_key(self) -> str:
        """The public host key as known_hosts wants it: type and base64."""
        return " ".join(self.host_key_file.read_text().split()[:2])

    # -- running it

    def boot(self) -> None:
        """Start it; `wait` tells when it is up."""
        binds = [Bind(**raw).option for raw in json.loads((self.folder / "binds.json").read_text())]
        settings = {
            "LAB_IMAGE": str(image.folder() / "base"),
            "LAB_DIR": str(self.folder),
            "LAB_HOST": self.name,
            "LAB_NETNS": self.cable.namespace,
            "LAB_CGROUP": f"{self.lab}/{self.name}",
            "LAB_BINDS": "\n".join(binds),
        }
        with (self.folder / "console.log").open("ab") as console:
            process = subprocess.Popen(
                ["unshare", "--mount", "sh", str(BOOT)],
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                cwd="/",
            )
        (self.folder / "boot.pid").write_text(str(process.pid))

    @property
    def booter(self) -> int:
        """The shell that starts the host, and starts it again after a reboot; 0 when it is off."""
        try:
            pid = int((self.folder / "boot.pid").read_text())
        except (OSError, ValueError):
            return 0
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # our own child: without this it would stay a zombie
        return pid if alive(pid) else 0

    @property
    def leader(self) -> int:
        """The host's PID 1, as numbered out here; 0 when it is off."""
        ours = Path("/proc/self/ns/pid").readlink()
        for nspawn in children(self.booter) if self.booter else []:
            for pid in children(nspawn):
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/ns/pid").readlink() != ours:
                        return pid
        return 0

    def run(self, *argv: object, check: bool = True, timeout: float = 60) -> str:
        """Run a command on the host as root, without its network or its sshd."""
        spaces = ("-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w")
        return run("nsenter", "-t", self.leader, *spaces, "--", *argv, check=check, timeout=timeout)

    def shell(self, line: str, *, check: bool = True) -> str:
        """As `run`, with a line for sh."""
        return self.run("sh", "-c", line, check=check)

    def write(self, path: str, text: str, *, mode: str = "644") -> None:
        """Make a file on the host as root, with the folders that lead to it."""
        line = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1" && chmod "$3" "$1"'
        self.run("sh", "-c", line, "sh", path, text, mode)

    def banner(self, timeout: float = 1.0) -> bytes:
        """The first bytes that the host's sshd sends; empty when there is none."""
        with network.inside(self.cable.controller):
            try:
                with socket.create_connection((self.address, 22), timeout) as link:
                    return link.recv(64)
            except OSError:
                return b""

    def wait(self, seconds: float = 60) -> None:
        """Wait until sshd answers and systemd says that the start is over.

        Raises:
            LabError: not within `seconds`, or the host is degraded; with the end of its console.
        """

        def answers() -> bool:
            if not self.booter:
                raise LabError(f"{self.name} ended: {self.console()}")
            return self.banner().startswith(b"SSH-")

        wait_until(answers, seconds=seconds, what=f"{self.name}: ssh banner")
        state = self.run("systemctl", "is-system-running", "--wait", check=False, timeout=seconds).strip()
        if state != "running":
            failed = self.run("systemctl", "--failed", "--no-legend", check=False)
            raise LabError(f"{self.name} is {state}: {failed}{self.console()}")

    def console(self) -> str:
        """The end of what the host printed while it started."""
        return (self.folder / "console.log").read_text(errors="replace")[-2000:]

    # -- power

    def power_off(self) -> None:
        """Pull the plug: no shutdown, no goodbye on the network."""
        self.cable.link("down")
        leader, booter = self.leader, self.booter
        if leader:
            os.kill(leader, signal.SIGKILL)  # killing nspawn alone would leave the host running
        if booter:
            wait_until(lambda: not self.booter, seconds=20, what=f"{self.name}: power off")

    def power_on(self) -> None:
        """Start it again on the disk it had, and wait."""
        self.cable.link("up")
        if not self.booter:
            self.boot()
        self.wait()

    def reboot(self) -> None:
        """A clean restart, as an operator would ask for it, and wait."""
        before = self.leader
        self.run("systemctl", "reboot", check=False)
        wait_until(lambda: self.leader not in (0, before), seconds=60, what=f"{self.name}: reboot")
        self.wait()

    def destroy(self) -> None:
        """Stop it and remove everything that was made for it."""
        with contextlib.suppress(OSError):
            (self.cgroup / "cgroup.freeze").write_text("0")
        with contextlib.suppress(LabError):
            self.power_off()
        self.cable.unplug()
        remove_cgroup(self.cgroup)
        run("rm", "-rf", "--one-file-system", self.folder)


def make_key(path: Path, comment: str) -> None:
    """Make an ed25519 key pair without a passphrase."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def remove_cgroup(path: Path) -> None:
    """Remove a control group and all below it; what ran in it may take a moment to be gone."""
    if not path.exists():
        return
    for group in [*sorted(path.rglob("*/"), key=lambda p: -len(p.parts)), path]:
        for _ in range(40):
            try:
                group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
