"""A login user of a lab host who may do nothing there but what `specctl sudoers` allows."""

from __future__ import annotations

import shlex

from .deploying import Site
from .machine import Machine

REFUSALS = ("command not allowed", "password is required", "NOT in sudoers")


def make_user(machine: Machine, name: str) -> None:
    """A user with the lab's key, a home and no rule in sudoers. There already: nothing happens."""
    machine.shell(
        f"id {name} 2>/dev/null || useradd --create-home --shell /bin/bash {name}; "
        f"install -d -o {name} -g {name} -m 700 /home/{name}/.ssh; "
        f"install -o {name} -g {name} -m 600 /home/deploy/.ssh/authorized_keys /home/{name}/.ssh/"
    )


def remove_user(machine: Machine, name: str) -> None:
    """The user, its rules and its processes."""
    machine.shell(
        f"rm -f /etc/sudoers.d/specctl-*; pkill -KILL -u {name}; sleep 0.2; "
        f"userdel --force --remove {name}; rm -f /etc/systemd/system/specctl.undo.service",
        check=False,
    )


def as_user(machine: Machine, name: str, line: str) -> tuple[int, str]:
    """Run a line on the host as that user, without its network; exit code and output."""
    out = machine.shell(
        f"su {name} -c {shlex.quote(line)} 2>&1; code=$?; echo; echo $code", check=False
    ).rstrip()
    text, _, code = out.rpartition("\n")
    return int(code), text.strip()


def sudo_of(machine: Machine, name: str) -> list[str]:
    """Every command that the host's sudo ran or refused for the user, as its journal has it."""
    text = machine.run("journalctl", "--no-pager", "-o", "cat", "_COMM=sudo", check=False)
    return [
        ("REFUSED " if any(word in line for word in REFUSALS) else "") + line.partition("COMMAND=")[2]
        for line in text.splitlines()
        if line.lstrip().startswith(f"{name} :") and "COMMAND=" in line
    ]


def printed(site: Site, *words: str) -> str:
    """What `specctl sudoers` prints for the only host of the site."""
    done = site.call("sudoers", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout
