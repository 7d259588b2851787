"""What befalls a run: its link, host, disks, server or operator. Data; `stage.py` applies it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..deploying import Site
from ..faults import Faults
from ..machine import Machine

SHORT_S = 2.0
KILLED = "operator killed"


@dataclass(frozen=True)
class Patient:
    """Where a fault is caused."""

    site: Site
    name: str  # of the host
    port: int

    @property
    def machine(self) -> Machine:
        return self.site.lab.machine(self.name)

    @property
    def faults(self) -> Faults:
        return self.site.lab.faults(self.name)

    @property
    def root(self) -> str:
        return str(self.site.hosts[self.name]["root"])


@dataclass(frozen=True)
class Ailment:
    """One fault. Everything is taken back at the end, by the lab's `restore`."""

    name: str
    strike: Callable[[Patient], object] = lambda p: None
    ease_s: float | None = None  # taken back after so many seconds; None: when the operator has ended
    die: str = ""  # the signal that ends the operator at that place, before the fault
    lasting: bool = False  # taken back only when the host has ended by itself


def kill_server(p: Patient) -> None:
    p.machine.run("pkill", "-KILL", "-f", f"launch_server.*--port {p.port}", check=False)


def reboot(p: Patient) -> None:
    p.faults.used = True
    p.machine.run("systemctl", "reboot", check=False)


def blink(p: Patient) -> None:
    """Power lost, and back at once."""
    p.faults.power_off()
    p.machine.power_on()


def general() -> list[Ailment]:
    """Faults that do not depend on what the host is like."""
    return [
        Ailment(KILLED, die="SIGKILL"),
        Ailment("operator interrupted", die="SIGINT"),
        Ailment("link cut", lambda p: p.faults.cut()),
        Ailment("link cut for a moment", lambda p: p.faults.cut(), ease_s=SHORT_S),
        Ailment("link drops all", lambda p: p.faults.black_hole()),
        Ailment("link reset", lambda p: p.faults.refuse(), ease_s=SHORT_S),
        Ailment("link reset for good", lambda p: p.faults.refuse()),
        Ailment("link slow", lambda p: p.faults.slow("256kbit"), ease_s=4 * SHORT_S),
        Ailment("link loses a third", lambda p: p.faults.lossy()),
        Ailment("host frozen", lambda p: p.faults.freeze()),
        Ailment("host frozen for a moment", lambda p: p.faults.freeze(), ease_s=SHORT_S),
        Ailment("sshd sessions killed", lambda p: p.faults.kill_ssh_sessions()),
        Ailment("host rebooted", reboot),
        Ailment("host powered off", lambda p: p.faults.power_off()),
        Ailment("host powered off and on", blink),
        Ailment("server killed", kill_server),
        Ailment("operator killed, host rebooted", reboot, die="SIGKILL"),
        Ailment("operator killed, host powered off and on", blink, die="SIGKILL"),
        Ailment("operator killed, server killed", kill_server, die="SIGKILL"),
        Ailment("operator killed, disk full", lambda p: p.faults.fill("/"), die="SIGKILL", lasting=True),
    ]


def of_disks(machine: Machine) -> list[Ailment]:
    """Each file system of the host that can be filled."""
    listed = machine.run("df", "--output=target,avail", "-B1").splitlines()[1:]
    writable = {line.split()[1] for line in machine.run("cat", "/proc/mounts").splitlines() if " rw," in line}
    found = []
    for target, free in (line.split() for line in listed):
        if target in writable and int(free) > 0 and not target.startswith(("/dev", "/run/host", "/run/user")):
            found.append(Ailment(f"disk full {target}", lambda p, t=target: p.faults.fill(t)))  # type: ignore[misc]
    return found


def of_folders(root: str, server: str) -> list[Ailment]:
    """Folders that become read-only."""
    names = ("", "/releases", f"/servers/{server}", "/deadman")
    folders = [*(root + name for name in names), "/etc/systemd/system"]
    shown = [f.replace(root, "ROOT").replace(server, "SERVER") for f in folders]
    return [
        Ailment(f"read-only {name}", lambda p, f=folder: p.faults.read_only(f))  # type: ignore[misc]
        for folder, name in zip(folders, shown, strict=True)
    ]


# how a release's server can be ill: name -> knobs of the stand-in
SICK: dict[str, dict[str, object]] = {
    "dies at start": {"die_at_start": True},
    "start hangs": {"start_s": 600.0},
    "flaps": {"die_after_s": 1.0},
    "healthy, then hangs": {"hang_after_s": 0.3},
    "gives no marker": {"no_marker": True},
}
