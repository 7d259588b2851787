"""A lab: a few hosts under one name, their keys, and the files that ssh needs to reach them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import image, network
from .faults import Faults
from .machine import Bind, Machine, make_key, remove_cgroup
from .shell import alive, run


class Lab:
    """Everything of one lab lies in `folder`; two labs of different names live side by side."""

    def __init__(self, name: str) -> None:
        if len(name) > 12 or not name.replace("-", "").isalnum():
            raise ValueError(f"a lab's name is at most 12 letters and digits, not {name!r}")
        self.name = name
        self.folder = image.folder() / f"run-{name}"
        self.key = self.folder / "id_ed25519"
        self.known_hosts = self.folder / "known_hosts"
        self.ssh_config = self.folder / "ssh_config"
        self._faults: dict[str, Faults] = {}

    @property
    def machines(self) -> list[Machine]:
        """All hosts, by number."""
        found = [Machine(self.name, path) for path in self.folder.glob("h[0-9]*")]
        return sorted(found, key=lambda machine: machine.number)

    def machine(self, name: str) -> Machine:
        """One host by its name, such as h1."""
        return Machine(self.name, self.folder / name)

    def faults(self, name: str) -> Faults:
        """The faults of one host; the same object each time, so that `restore` knows what was used."""
        if name not in self._faults:
            self._faults[name] = Faults(self.machine(name))
        return self._faults[name]

    def up(self, hosts: int, *, disk: str = "1G", owner: int | None = None) -> None:
        """Build what is missing and start `hosts` hosts.

        `owner` is a process id: once it is gone, any later lab may remove this one.
        """
        image.prepare()
        with image.alone("labs"):
            sweep()
            self.down()
            self.folder.mkdir(parents=True)
            if owner:
                (self.folder / "owner").write_text(str(owner))
        make_key(self.key, "lab")
        network.create(self.name)
        started = [self._start(disk=disk, binds=()) for _ in range(hosts)]
        for machine in started:
            machine.wait()

    def add(self, *, disk: str = "1G", binds: Sequence[Bind] = ()) -> Machine:
        """Start one more host and wait for it."""
        machine = self._start(disk=disk, binds=binds)
        machine.wait()
        return machine

    def _start(self, *, disk: str, binds: Sequence[Bind]) -> Machine:
        number = 1 + max((machine.number for machine in self.machines), default=0)
        machine = self.machine(f"h{number}")
        machine.create(disk=disk, binds=binds, authorized_key=self.key.with_suffix(".pub").read_text())
        machine.boot()
        self.write_ssh_files()
        return machine

    def remove(self, machine: Machine) -> None:
        """Stop and forget one host."""
        self._faults.pop(machine.name, None)
        machine.destroy()
        self.write_ssh_files()

    def write_ssh_files(self) -> None:
        """known_hosts and ssh_config for all hosts there are now."""
        known = [f"{m.name},{m.address} {m.host_key}\n" for m in self.machines]
        self.known_hosts.write_text("".join(known))
        hosts = [f"Host {m.name}\n  HostName {m.address}\n" for m in self.machines]
        common = (
            f"Host h*\n  User deploy\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
        )
        self.ssh_config.write_text("".join(hosts) + common)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run a block of the calling thread where the hosts can be reached."""
        with network.inside(network.controller_namespace(self.name)):
            yield

    def restore(self) -> None:
        """Take back every fault that was caused through `faults`."""
        for faults in self._faults.values():
            faults.restore()

    def down(self) -> None:
        """Stop all hosts and remove every trace."""
        for machine in self.machines:
            machine.destroy()
        network.destroy(self.name)
        root = image.cgroup_root()
        if root is not None:
            remove_cgroup(root / self.name)
        run("rm", "-rf", "--one-file-system", self.folder)


def sweep() -> None:
    """Remove the labs of test processes that were killed. Call it inside `image.alone("labs")`."""
    for path in image.folder().glob("run-*/owner"):
        owner: int = int(path.read_text() or 0)
        if owner != os.getpid() and not alive(owner):
            Lab(path.parent.name.removeprefix("run-")).down()


def of_process() -> Lab:
    """The lab that belongs to this process alone."""
    return Lab(f"t{os.getpid()}")
