"""What the values of an inventory mean together; each module looks at one subject."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specctl.config.checks import arguments, hosts, secrets, sharing, threshold
from specctl.config.checks.case import HostCase, ServerCase
from specctl.config.problems import Problems
from specctl.config.resolve import PlacedHost


def check_inventory(
    placed: Sequence[PlacedHost],
    problems: Problems,
    warnings: Problems,
    bases: Collection[str] | None = None,
) -> None:
    """Report what contradicts itself to `problems`, and what is allowed but doubtful to `warnings`."""
    hosts.check_addresses([host for host in placed if not host.broken], problems)
    for host in placed:
        case = HostCase(problems, warnings, host)
        if not host.broken:
            hosts.check_host(case)
            hosts.check_base(case, bases)
        sharing.check_servers(case)
        for server in host.servers:
            one = ServerCase(problems, warnings, host, server)
            secrets.check_secrets(one)
            if not server.broken and not host.broken:
                arguments.check_arguments(one)
                threshold.check_threshold(one)
