"""Whether a host can take an installation at all: what doctor would say, from facts that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from specctl.base.errors import RecordError, UnknownBase
from specctl.base.lock import pins_of, shipped_lock
from specctl.base.store import BaseStore
from specctl.config.model import EnvironmentKind, HostConfig, Supervisor, Target
from specctl.doctor.machine import check_machine, interpreter
from specctl.doctor.model import Check, Verdict, fail
from specctl.doctor.needs import Needs, needs_of
from specctl.host.facts import Facts
from specctl.release.errors import PlanRefused
from specctl.release.state import HostState

# Without these no deploy succeeds. What else doctor fails (a clock, a driver) may still serve somewhere.
_NEEDED = ("system", "python", "glibc", "supervisor", "gpu", "disk root")
_NEEDED_ADOPTED = tuple(name for name in _NEEDED if name != "glibc")  # what is adopted runs there already
_NOTHING = Needs(python="", glibc=(), pins={}, cuda=None, disk_bytes=0)


def check_fit(config: HostConfig, facts: Facts, state: HostState, uv: str | None, packages: int) -> None:
    """Refuse a host on which an installation could only fail.

    Args:
        uv: with what packages would be installed there; None: pip.
        packages: how many the lock names.

    Raises:
        PlanRefused: why, in doctor's words.
    """
    needs, whole = needs_on(config.base, config.target)
    # doctor counts a first deploy of the base's whole lock; another one is shorter, or shares what is there:
    # one that was cut off has left its packages in the cache
    share = 0 if state.releases else min(packages, whole)
    needs = replace(needs, disk_bytes=needs.disk_bytes * share // max(whole, 1))
    # the unit turns lingering on by itself, and root may hear from a systemd that tells this user nothing
    state_told = facts.system_state if facts.system_state == "offline" else "running"
    facts = replace(facts, linger=True, system_state=state_told)
    adopted = config.environment is EnvironmentKind.ADOPTED
    names = set(_NEEDED_ADOPTED if adopted else _NEEDED) - _unread(config, facts)
    checks = [*check_machine(config, facts, needs), *_tools(config, facts, state, uv)]
    failed = [c for c in checks if c.verdict is Verdict.FAIL and c.name in names]
    if not failed:
        return
    rest: Mapping[str, str] = {c.name: f"{c.seen} -> {c.hint}" for c in failed[1:]}
    raise PlanRefused(
        f"{config.name} cannot take a release: {failed[0].name}: {failed[0].seen}",
        code="host-unfit",
        context={"host": config.name, **rest},
        hint=f"{failed[0].hint}; all that can be seen there: specctl doctor --hosts {config.name}",
    )


@cache
def needs_on(base: str, target: Target) -> tuple[Needs, int]:
    """What a base asks of a host, and how many packages its lock has; nothing where it is not known here."""
    try:
        known = BaseStore.discover().get(base)
        lock = shipped_lock(known, target.value) if target.value in known.locks else None
    except (UnknownBase, RecordError):
        return _NOTHING, 0
    return needs_of(known, lock, cuda=target is Target.CUDA), len(pins_of(lock or ""))


def _unread(config: HostConfig, facts: Facts) -> set[str]:
    """Checks whose facts the login user could not read: the host may be fit all the same."""
    ended = {problem.partition(":")[0] for problem in facts.problems}
    unread = {"gpu"} if "nvidia-smi" in ended else set()
    return unread | ({"python"} if config.sudo and interpreter(config) in ended else set())


def _tools(config: HostConfig, facts: Facts, state: HostState, uv: str | None) -> list[Check]:
    """A venv is made by uv or by Python's own modules, of which Debian leaves one out; a thin one and that of
    supervisor by Python always."""
    adopted = config.environment is EnvironmentKind.ADOPTED
    wanted = []  # interpreter, whether pip has to come with it, for what
    if adopted or not uv:
        wanted.append((interpreter(config), not adopted, "" if adopted else ", and there is no uv"))
    if config.supervisor is Supervisor.SUPERVISOR and not state.supervisor:
        wanted.append((config.python, True, ", and supervisor needs it"))
    checks = []
    for name, pip, why in wanted:
        python = facts.python(name)
        if python is None or python.version is None or (python.venv and (python.ensurepip or not pip)):
            continue
        lacks = "ensurepip" if python.venv else "the venv module"
        seen = f"{python.path} is without {lacks}{why}"
        checks.append(fail("python", seen, "install python3-venv (or uv) on the host"))
    return checks
