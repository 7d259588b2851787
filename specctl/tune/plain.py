"""A true plain server in place of the speculative one while it is measured; then the old one again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.expectation import launch_args, local_url
from specctl.evidence.ready import await_ready
from specctl.host.protocol import Host
from specctl.service.protocol import Service, Unit
from specctl.service.restarting import restart_server
from specctl.tune.errors import TuneError

LIMIT_FLAG = "--max-running-requests"


def plain_argv(argv: Sequence[str], limit: int) -> tuple[str, ...]:
    """The launch command without speculation, with the same limit of running requests.

    Without speculation SGLang would allow more of them, and share its memory in another way.
    """
    out: list[str] = []
    dropping = False
    for word in argv:
        if word.startswith("--"):
            dropping = word.startswith("--speculative-")
            if dropping:
                continue
        elif dropping:
            continue
        out.append(word)
    if not any(word.partition("=")[0] == LIMIT_FLAG for word in out):
        out += [LIMIT_FLAG, str(limit)]
    return tuple(out)


@contextmanager
def plain_server(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    service: Service,
    unit: Unit,
    limit: int,
    progress: Callable[[str], None],
) -> Iterator[None]:
    """Restart without speculation; whatever happens inside, the old unit serves again afterwards.

    Raises:
        NotReady: one of the two does not become healthy.
    """
    try:
        progress("restarting without speculation")
        service.install(replace(unit, argv=plain_argv(unit.argv, limit)))
        _restart(host, config, server, service, progress)
        yield
    finally:
        progress("restarting with speculation, as it was")
        service.install(unit)
        _restart(host, config, server, service, progress)
        if not service.installed(unit):
            raise TuneError(
                f"the unit of {server.name} on {config.name} is not what it was",
                code="not-restored",
                hint="deploy again: specctl deploy",
            )


def _restart(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    service: Service,
    progress: Callable[[str], None],
) -> None:
    cursor = restart_server(host, config, server, service)
    await_ready(
        host,
        service,
        local_url(server, launch_args(server)),
        cursor=cursor,
        start_s=server.timers.start_s,
        sudo=config.sudo,
        progress=progress,
    )
