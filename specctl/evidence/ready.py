"""The wait from a start to a healthy server; ends early when the process has ended."""

from __future__ import annotations

from collections.abc import Callable

from specctl.errors import SpecctlError
from specctl.evidence.clock import Clock
from specctl.evidence.onhost import source
from specctl.evidence.process import describe
from specctl.host.protocol import Host
from specctl.service.protocol import Cursor, Service, ServiceState

POLL_S = 1.0
WAIT_S = 10.0  # for one answer
RETRYING = ("auto-restart", "BACKOFF")  # it ended, and its supervisor will try again
TAIL = 20  # log lines that an error shows


class NotReady(SpecctlError):
    """The server did not become healthy, or its process ended."""

    code = "not-ready"


def await_ready(
    host: Host,
    service: Service,
    url: str,
    *,
    cursor: Cursor,
    start_s: float,
    sudo: bool = False,
    clock: Clock | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ServiceState:
    """Wait until /health answers 200.

    Args:
        cursor: place in the log from before the start, for the log's end in an error.
        start_s: at most this long, in seconds.

    Raises:
        NotReady: with what was seen last and the end of the server's log.
    """
    clock = clock or Clock()
    end = clock.monotonic() + start_s
    first = service.state().invocation
    while True:
        raw = host.script(
            source("web", "ready"), {"url": url, "wait_s": WAIT_S}, sudo=sudo, timeout_s=WAIT_S + 30.0
        )
        answer = raw if isinstance(raw, dict) else {}
        state = service.state()
        if answer.get("status") == 200 and state.running:
            return state
        ended = state.active in ("failed", "inactive") or state.sub in RETRYING or bool(state.restarts)
        again = first != "" and state.invocation not in ("", first)
        left = end - clock.monotonic()
        if ended or again or left <= 0:
            how = "ended while it was starting" if ended or again else f"was not healthy within {start_s:g} s"
            tail = service.lines_since(cursor, match=("\0",), tail=TAIL).tail
            raise NotReady(
                f"{service.name} on {host.name} {how}",
                context={
                    "host": host.name,
                    "process": describe(state),
                    "health": str(answer.get("error") or answer.get("status")),
                    "log": "\n".join(line.text for line in tail) or "(no lines)",
                },
                hint=f"the whole log: specctl logs --hosts {host.name} {_server(service.name)}",
            )
        progress(f"starting, {left:.0f} s left")
        clock.sleep(POLL_S)


def _server(unit: str) -> str:
    return unit.removesuffix(".service").removeprefix("specctl-")
