"""Command line of the lab, for looking around by hand: `python -m tests.lab --help`."""

from __future__ import annotations

import argparse
import os
import sys

from . import image, network
from .lab import Lab
from .machine import Bind


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    top.add_argument("--name", default="lab", help="which lab (several can run side by side)")
    verbs = top.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="install tools and build the hosts' root file system")
    up = verbs.add_parser("up", help="start hosts")
    up.add_argument("-n", "--hosts", type=int, default=3)
    up.add_argument("--disk", default="1G", help="sparse size of each host's disk")
    add = verbs.add_parser("add", help="start one more host")
    add.add_argument("--disk", default="1G")
    add.add_argument("--bind", action="append", default=[], metavar="FOLDER:TARGET", help="seen read-only")
    verbs.add_parser("status", help="list the hosts")
    verbs.add_parser("down", help="stop and remove all of it")
    execute = verbs.add_parser("exec", help="run a command where the hosts can be reached")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    fault = verbs.add_parser(
        "fault", help="cause a fault: cut, black_hole, refuse, slow, freeze, fill, skew, ..."
    )
    fault.add_argument("host")
    fault.add_argument("fault")
    fault.add_argument("arguments", nargs="*")
    restore = verbs.add_parser("restore", help="take all faults of a host back")
    restore.add_argument("host")
    return top


def main() -> None:
    """Do what the command line says."""
    chosen = parser().parse_args()
    reason = image.why_not()
    if reason:
        sys.exit(reason)
    lab = Lab(chosen.name)
    if chosen.verb == "prepare":
        image.prepare()
    elif chosen.verb == "up":
        lab.up(chosen.hosts, disk=chosen.disk)
    elif chosen.verb == "add":
        lab.add(disk=chosen.disk, binds=[Bind(*bind.split(":", 1)) for bind in chosen.bind])
    elif chosen.verb == "down":
        lab.down()
    elif chosen.verb == "exec":
        command = chosen.command[1:] if chosen.command[:1] == ["--"] else chosen.command
        network.enter(network.controller_namespace(lab.name))
        os.execvp(command[0], command)
    elif chosen.verb == "fault":
        getattr(lab.faults(chosen.host), chosen.fault)(*chosen.arguments)
    elif chosen.verb == "restore":
        faults = lab.faults(chosen.host)
        faults.used = True
        faults.restore()
    if chosen.verb in ("up", "add", "status"):
        for machine in lab.machines:
            print(machine.name, machine.address, "up" if machine.banner() else "does not answer")


if __name__ == "__main__":
    main()
