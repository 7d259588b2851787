"""All evidence of one server: the probes in order, and the judges. Nothing of the server is changed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from specctl.config.command import server_env
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.alive import judge_alive, look_alive
from specctl.evidence.behaviour import Run, exercise
from specctl.evidence.behaviour_judge import judge_behaviour
from specctl.evidence.clock import Clock
from specctl.evidence.expectation import launch_args
from specctl.evidence.install import judge_install, read_installed
from specctl.evidence.live_change import CHANGE_TEXT, after_live_change
from specctl.evidence.marker import MARKER_TEXT, judge_marker, markers
from specctl.evidence.model import Evidence, Expectation, Kind, Report, Verdict
from specctl.evidence.process import judge_process
from specctl.evidence.route import judge_route
from specctl.host.protocol import Host
from specctl.service.protocol import Cursor, LogLine, LogSlice, Service, ServiceState
from specctl.service.state import ServerState, read_state
from specctl.service.unit import server_folder

SAMPLE_S = 1.0  # between two looks at the process in the hold window


def prove(
    host: Host, config: HostConfig, server: ServerConfig, service: Service, expectation: Expectation
) -> Report:
    """Evidence 1 to 5 as of this moment, since the restart that the host remembers; no hold window."""
    return collect(host, config, server, expectation, service)


def collect(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    expectation: Expectation,
    service: Service,
    *,
    remembered: ServerState | None = None,
    before: ServiceState | None = None,
    hold_s: float = 0.0,
    with_exercise: bool = False,
    clock: Clock | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Collect and judge.

    Args:
        expectation: from `expectation_for`.
        remembered: the last restart; None: read from the host. Its cursor is where the log is read from;
            without one the whole log is read, and the invocation alone decides.
        before: the service before that restart, when the caller has just done it.
        hold_s: how long the process is watched, in seconds; 0 is one look.
        with_exercise: also send a burst (evidence 6).
        progress: told what is being looked at.
    """
    clock = clock or Clock()
    if remembered is None:
        remembered = read_state(host, config.root, server.name, sudo=config.sudo)
    progress("process")
    samples = watch(service, hold_s, clock)
    state = samples[-1]
    known = remembered.invocation if remembered else ""
    found = [judge_process(before, samples, hold_s=hold_s, invocation=known)]

    progress("install")
    installed = read_installed(
        host,
        expectation,
        folder=server_folder(config.root, server.name),
        env=server_env(server),
        pid=state.main_pid,
        sudo=config.sudo,
    )
    progress("log")
    log, changes = read_marker(service, remembered, state)
    spoke = [m.worker for m in markers(log.lines).values()]
    hooked = None if installed.error or not installed.site else installed.hooked_workers
    found += [
        judge_install(expectation, installed),
        judge_route(expectation, spoke, hooked, where=log.where),
        judge_marker(expectation, log, base=expectation.distribution.split("+")[0]),
    ]
    progress("alive")
    key_files, key = api_key_sources(server)
    alive = look_alive(host, expectation.url, key_files=key_files, key=key, sudo=config.sudo)
    found[-1] = after_live_change(expectation, log, found[-1], alive["info"], changes)
    found.append(judge_alive(alive["health"], alive["generation"], url=expectation.url))
    if with_exercise:
        progress("exercise: load past the threshold, a minute or two")
        found.append(_exercise(host, config, server, expectation, found[-1], key_files, key))
    return Report(
        host=config.name,
        server=server.name,
        release=installed.release or (remembered.release if remembered else ""),
        taken_at=stamp(clock),
        evidence=tuple(found),
    )


def stamp(clock: Clock) -> str:
    """Now, ISO 8601 in UTC, whole seconds."""
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.timezone.utc)
    return now.isoformat(timespec="seconds")


def watch(service: Service, hold_s: float, clock: Clock) -> list[ServiceState]:
    """Looks at the service over the hold window, the first at its beginning and the last at its end.

    Ends early when the process is gone or is another one: that cannot become better by waiting.
    """
    end = clock.monotonic() + hold_s
    samples = [service.state()]
    while (left := end - clock.monotonic()) > 0:
        clock.sleep(min(SAMPLE_S, left))
        samples.append(service.state())
        if not samples[-1].running or samples[-1].main_pid != samples[0].main_pid:
            break
    return samples


def read_marker(
    service: Service, remembered: ServerState | None, state: ServiceState
) -> tuple[LogSlice, tuple[LogLine, ...]]:
    """The log lines with the marker, and those of live changes: after the cursor, of what runs now.

    A process that was started since then (by its supervisor, or after a reboot) has its marker after the
    cursor too, so the cursor stays right.
    """
    cursor = Cursor(remembered.cursor if remembered else "")
    texts = (MARKER_TEXT, CHANGE_TEXT)
    log = service.lines_since(cursor, invocation=state.invocation or None, match=texts, tail=0)
    if not state.invocation:  # nothing runs: no line is this invocation's
        log = replace(log, lines=(), earlier=(*log.earlier, *log.lines))
    spoke = tuple(line for line in log.lines if MARKER_TEXT in line.text)
    changes = tuple(line for line in log.lines if MARKER_TEXT not in line.text)
    earlier = tuple(line for line in log.earlier if MARKER_TEXT in line.text)
    return replace(log, lines=spoke, earlier=earlier), changes


def api_key_sources(server: ServerConfig) -> tuple[list[str], str | None]:
    """(files on the host that may hold the API key, the key itself when the inventory has it in the open)."""
    files = [server.secret_file] if server.secret_file else []
    key = None
    args = launch_args(server)
    for index, arg in enumerate(args):
        flag, equals, inline = arg.partition("=")
        if flag == "--api-key":
            key = inline if equals else args[index + 1] if index + 1 < len(args) else None
    return files, key


def _exercise(
    host: Host,
    config: HostConfig,
    server: ServerConfig,
    expectation: Expectation,
    alive: Evidence,
    key_files: list[str],
    key: str | None,
) -> Evidence:
    """Evidence 6; not tried on a server that does not answer."""
    run_it = expectation.threshold is not None and expectation.worker is not None
    if run_it and alive.verdict is not Verdict.PASS:
        return Evidence(
            Kind.BEHAVIOUR,
            Verdict.UNKNOWN,
            "behaviour-not-tried",
            "a burst past the threshold",
            "the server does not generate, so no burst was sent",
            expectation.url,
        )
    if not run_it:
        return judge_behaviour(expectation, Run())
    run = exercise(host, config, server, expectation, key_files=key_files, key=key)
    return judge_behaviour(expectation, run)
