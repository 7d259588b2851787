"""The lab's network: a bridge in the controller's namespace, one namespace and one cable for each host."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .shell import run

PREFIX = "198.51.100"  # TEST-NET-2 (RFC 5737): never routed anywhere
CONTROLLER = f"{PREFIX}.1"
_CLONE_NEWNET = 0x40000000


def enter(namespace: str) -> None:
    """Move the calling thread (and what it starts from now on) into a network namespace."""
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _set_network(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run a block of this thread in another network namespace."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(namespace)
        yield
    finally:
        _set_network(before)
        os.close(before)


def _set_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@dataclass(frozen=True)
class Cable:
    """The two ends of one host's network: `port` at the bridge, eth0 in the host's namespace."""

    lab: str
    number: int

    @property
    def address(self) -> str:
        return f"{PREFIX}.{10 + self.number}"

    @property
    def namespace(self) -> str:
        return f"{self.lab}-h{self.number}"

    @property
    def port(self) -> str:
        return f"v-h{self.number}"

    @property
    def controller(self) -> str:
        return controller_namespace(self.lab)

    def plug(self) -> None:
        """Make the host's namespace and join it to the bridge."""
        ctl, ns = self.controller, self.namespace
        run("ip", "netns", "add", ns)
        run("ip", "link", "add", self.port, "netns", ctl, "type", "veth", "peer", "name", "eth0", "netns", ns)
        run("ip", "-n", ctl, "link", "set", self.port, "master", "br0", "up")
        run("ip", "-n", ns, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", ns, "link", "set", device, "up")

    def unplug(self) -> None:
        """Remove the host's namespace; its cable goes with it."""
        run("ip", "netns", "del", self.namespace, check=False)

    def link(self, state: str) -> None:
        """Set the bridge's port 'up' or 'down'."""
        run("ip", "-n", self.controller, "link", "set", self.port, state)

    def filter(self, *rule: str, check: bool = True) -> None:
        """Change the packet filter inside the host's namespace."""
        run("ip", "netns", "exec", self.namespace, "iptables", "-w", *rule, check=check)

    def shape(self, *qdisc: str, check: bool = True) -> None:
        """Apply one `tc qdisc` command to both ends; the device is filled in after the first word."""
        for namespace, device in ((self.namespace, "eth0"), (self.controller, self.port)):
            run("tc", "-n", namespace, "qdisc", qdisc[0], "dev", device, *qdisc[1:], check=check)


def controller_namespace(lab: str) -> str:
    """Where tests run."""
    return f"{lab}-ctl"


def create(lab: str) -> None:
    """Make the controller's namespace with an empty bridge."""
    ctl = controller_namespace(lab)
    run("ip", "netns", "add", ctl)
    run("ip", "-n", ctl, "link", "set", "lo", "up")
    run("ip", "-n", ctl, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
    run("ip", "-n", ctl, "addr", "add", f"{CONTROLLER}/24", "dev", "br0")
    run("ip", "-n", ctl, "link", "set", "br0", "up")


def destroy(lab: str) -> None:
    """Remove every namespace of a lab that still exists; processes in them must be gone."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        if name == controller_namespace(lab) or name.startswith(f"{lab}-h"):
            run("ip", "netns", "del", name, check=False)
