"""What can be done to a host. `restore` takes all of it back, in whatever state the host is."""

from __future__ import annotations

import contextlib

from .machine import Machine
from .shell import run

_FILLER = ".lab-filler"
_MOUNTS = "/run/lab-mounts"  # on the host: one folder a line
_SKEW = "/etc/ssh/sshd_config.d/skew.conf"
_FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Faults:
    """Faults of one host; each method causes one and returns at once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.used = False

    def cut(self) -> None:
        """Pull the network cable: packets vanish, nobody is told."""
        self._mark()
        self.machine.cable.link("down")

    def mend(self) -> None:
        """Put the network cable back."""
        self.machine.cable.link("up")

    def black_hole(self) -> None:
        """Drop every packet, as a wrong firewall rule does."""
        self._mark()
        for chain in ("INPUT", "OUTPUT"):
            self.machine.cable.filter("-I", chain, "-j", "DROP")

    def refuse(self) -> None:
        """Answer the ssh port with a reset, as a host without sshd does."""
        self._mark()
        self.machine.cable.filter("-I", "INPUT", "-p", "tcp", "--dport", "22", "-j", "REJECT",
                                  "--reject-with", "tcp-reset")  # fmt: skip

    def slow(self, rate: str = "256kbit") -> None:
        """Limit the network in both directions; `rate` as tc writes it."""
        self._mark()
        # a queue of one second: with a shorter one the losses, not the rate, decide how slow it is
        self.machine.cable.shape("replace", "root", "tbf", "rate", rate, "burst", "16kb", "latency", "1s")

    def lossy(self, part: float = 0.3) -> None:
        """Lose this part of all packets, by chance, in both directions."""
        self._mark()
        for chain in ("INPUT", "OUTPUT"):
            self.machine.cable.filter("-I", chain, "-m", "statistic", "--mode", "random",
                                      "--probability", str(part), "-j", "DROP")  # fmt: skip

    def freeze(self) -> None:
        """Stop every process of the host; its kernel still accepts connections."""
        self._mark()
        (self.machine.cgroup / "cgroup.freeze").write_text("1")

    def thaw(self) -> None:
        """Let a frozen host go on."""
        (self.machine.cgroup / "cgroup.freeze").write_text("0")

    def power_off(self) -> None:
        """Pull the plug."""
        self._mark()
        self.machine.power_off()

    def kill_ssh_sessions(self) -> int:
        """Kill (-9) the sshd of every connection; what they started goes on. Returns how many."""
        found = self.machine.shell("pgrep -f '^sshd: [a-z]+(@| .priv)' || true").split()
        if found:
            self.machine.run("kill", "-KILL", *found, check=False)
        return len(found)

    def fill(self, folder: str = "/", leave: int = 0) -> None:
        """Use up the disk below `folder`, but for `leave` bytes."""
        self._mark()
        # taking the very last byte fails after it has taken all the blocks: that is what is wanted
        self.machine.shell(
            f"free=$(df -B1 --output=avail {folder} | tail -1); "
            f"fallocate -l $((free - {leave})) {folder.rstrip('/')}/{_FILLER} || [ {leave} = 0 ]"
        )

    def read_only(self, folder: str) -> None:
        """Make one folder of the host a read-only mount."""
        self._mark()
        self.machine.shell(
            f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} "
            f"&& echo {folder} >> {_MOUNTS}"
        )

    def small(self, folder: str, size: str = "1m") -> None:
        """Mount a file system of `size` over a folder, as a small temporary folder is."""
        self._mark()
        self.machine.shell(
            f"mount -t tmpfs -o size={size},mode=1777 none {folder} && echo {folder} >> {_MOUNTS}"
        )

    def skew(self, offset: str) -> None:
        """Shift the clock of new ssh sessions, e.g. '-1h' or '+3d'. Not of sshd itself, nor of sudo."""
        self._mark()
        self.machine.shell(f"echo 'SetEnv LD_PRELOAD={_FAKETIME} FAKETIME={offset}' > {_SKEW}")
        self._reload_sshd()

    def restore(self) -> None:
        """Take every fault back and wait for the host to answer; does nothing where none was caused."""
        if not self.used:
            return
        machine = self.machine
        with contextlib.suppress(OSError):
            self.thaw()
        machine.cable.filter("-F", check=False)
        machine.cable.shape("del", "root", check=False)
        if machine.leader:
            self.mend()
            machine.shell(f"rm -f /{_FILLER} /*/{_FILLER} /srv/*/{_FILLER}")
            machine.shell(f"[ ! -e {_MOUNTS} ] || {{ tac {_MOUNTS} | xargs -n1 umount -l; rm {_MOUNTS}; }}")
            if machine.run("sh", "-c", f"rm {_SKEW} 2>/dev/null && echo shifted", check=False).strip():
                self._reload_sshd()
        machine.power_on()
        self.used = False

    def _reload_sshd(self) -> None:
        # a reload forgets the listening socket for a moment: wait for the banner
        self.machine.run("systemctl", "reload", "ssh")
        self.machine.wait()

    def _mark(self) -> None:
        self.used = True


def fsck(machine: Machine) -> str:
    """Check the disk of a host that is off."""
    return run("e2fsck", "-fy", machine.folder / "disk.img", check=False)
