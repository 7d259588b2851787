"""What two servers of one host cannot share: a name, a port, a GPU."""

from __future__ import annotations

from specctl.config import arguments as sglang
from specctl.config.checks.case import HostCase, ServerCase
from specctl.config.model import Target
from specctl.config.problems import Where, shown


def check_servers(case: HostCase) -> None:
    """Refuse every pair that shares one of the three."""
    names: dict[str, Where] = {}
    ports: dict[int, tuple[str, Where]] = {}
    gpus: dict[int, tuple[str, Where]] = {}
    servers = [
        ServerCase(case.problems, case.warnings, case.placed, s) for s in case.placed.servers if not s.broken
    ]
    for index, one in enumerate(servers):
        name = one.server.name
        here = one.at("name")
        if name in names:
            text = f"two servers are named {shown(name)}: also at {names[name]}"
            case.refuse("duplicate-server", here, text, "rename one of them")
        names.setdefault(name, here)
        for port, what, where in _ports(one):
            other, there = ports.setdefault(port, (what, where))
            if other != what:
                text = f"{what} has port {port}, and so has {other}: {there}"
                case.refuse("port-conflict", where, text, "give each its own port")
        key = f"{name} ({index})"
        for gpu in one.server.gpus:
            holder, there = gpus.setdefault(gpu, (key, one.at("gpus")))
            if holder != key:
                text = f"servers {holder.split(' ')[0]} and {name} both have GPU {gpu}: {there}"
                case.refuse("gpu-conflict", one.at("gpus"), text, "list each GPU for one server only")
        if len(servers) > 1 and not one.server.gpus and case.host.target is Target.CUDA:
            text = f"server {name} may use every GPU, beside other servers"
            case.warn("gpus", one.settings.where, text, "add `gpus:` to each server of the host")


def _ports(one: ServerCase) -> list[tuple[int, str, Where]]:
    found = [(one.server.port, f"server {one.server.name}", one.at("port"))]
    given, value = one.find(sglang.NCCL_PORT), one.number(sglang.NCCL_PORT)
    if given is not None and value is not None:
        found.append((value, f"--nccl-port of {one.server.name}", one.at_argument(given.index)))
    return found
