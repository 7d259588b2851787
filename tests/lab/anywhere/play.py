"""Play one case: the command, the fault, the host alone, `status`, the next command; and judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..shell import LabError
from . import checks
from .ailments import Ailment
from .cases import Case
from .stage import GOES_ON_S, SETTLES_S, Ended, Stage, target
from .trip import Trip

UNREACHABLE, LOCKED = 4, 5


@dataclass
class Outcome:
    """What came of one case."""

    case: Case
    struck: bool = False
    code: int = 0  # of the command that met the fault
    by_itself: str = ""  # what served before the next command
    at_last: str = ""  # what served after the next command
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)  # only of cases that went wrong

    def as_dict(self) -> dict[str, Any]:
        return {**self.case.as_dict(), **{k: v for k, v in self.__dict__.items() if k != "case"}}


def play(stage: Stage, case: Case, ailments: dict[str, Ailment]) -> Outcome:
    """One case from beginning to end; the stage is fit for the next one when nothing is wrong."""
    begin = time.monotonic()
    outcome = Outcome(case)
    try:
        _play(stage, case, ailments.get(case.ailment), outcome)
    except LabError as exc:
        outcome.wrong.append(f"the lab: {exc}")
    finally:
        stage.patient.faults.restore()
        outcome.seconds = round(time.monotonic() - begin, 1)
    return outcome


def _play(stage: Stage, case: Case, ailment: Ailment | None, outcome: Outcome) -> None:
    stage.ready_for(case.verb)
    before = stage.look()
    number = stage.choose(case, before) if case.verb == "deploy" else 0
    old, new = target(case, before, number)
    if case.sick and case.verb == "rollback":
        release = next(r for r, _ in reversed(before["goods"]) if r.startswith(f"{new}-"))
        stage.make_ill(release, case.sick)
    words = stage.words(case.verb, number, case.sick if case.verb == "deploy" else "")
    met = stage.command(words, case.trip, ailment)
    outcome.code, outcome.struck = met.code, met.struck
    if ailment is None or not ailment.lasting:
        stage.patient.faults.restore()
    if case.wait:
        wait_until_settled(stage, case, met, old, new, outcome)
        stage.patient.faults.restore()
    code, status = status_of(stage)
    if case.wait:
        outcome.wrong += checks.told(status, code, stage.look())
    if outcome.wrong:
        outcome.notes |= notes(stage, met)
        return
    wanted, deployed, ended = go_on(stage, case, met, status, old, new)
    if ended.code != 0:
        outcome.wrong.append(f"the next command ended with {ended.code}")
    code, status = status_of(stage)
    after = look_until(stage, lambda seen: not checks.clean(seen, status, wanted, deployed=deployed), 15.0)
    outcome.at_last = after["version"]
    outcome.wrong += checks.clean(after, status, wanted, deployed=deployed)
    if outcome.wrong:
        outcome.notes |= notes(stage, met, ended)


def wait_until_settled(stage: Stage, case: Case, met: Ended, old: str, new: str, outcome: Outcome) -> None:
    """The host ends by itself with the old release serving, or the new one proven."""

    def fine(seen: dict[str, Any]) -> bool:
        return checks.settled(seen) and not checks.serving(seen, old, new)

    seen = look_until(stage, fine, SETTLES_S)
    outcome.by_itself = seen["version"]
    if not checks.settled(seen):
        outcome.wrong.append(f"the host has not ended by itself: {seen['deadman']}")
    outcome.wrong += checks.serving(seen, old, new)
    hosts = met.json.get("hosts") or [None]
    outcome.wrong += checks.answered(met.code, hosts[0], seen, old, new)


def look_until(stage: Stage, fine: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
    """Look until it is fine, or the time is over; the last look."""
    end = time.monotonic() + seconds
    while True:
        seen = stage.look()
        if fine(seen) or time.monotonic() > end:
            return seen
        time.sleep(1.0)


def status_of(stage: Stage) -> tuple[int, dict[str, Any] | None]:
    done = stage.plainly("status", "--json")
    hosts = done.json.get("hosts") or []
    return done.code, hosts[0] if hosts and "servers" in hosts[0] else None


def go_on(
    stage: Stage, case: Case, met: Ended, status: dict[str, Any] | None, old: str, new: str
) -> tuple[str, bool, Ended]:
    """The next command until it is let in: what has to serve then, whether it is a deploy, how it ended."""
    unfinished = status is not None and status["unfinished"] is not None
    release = status["servers"][0]["release"] if status else ""
    serves_new = (release or "").rpartition("-")[0] == new
    back = case.then == "rollback" and (
        unfinished or serves_new if case.verb == "deploy" else not serves_new or unfinished
    )
    if case.sick and case.verb == "rollback":
        back = False  # it leads to the ill one
    if back:
        wanted, words = (old if case.verb == "deploy" else new), stage.words("rollback", 0)
    else:
        number = int(new.rpartition(".")[2])
        if case.verb == "rollback" or case.sick:
            seen = stage.look()
            there = [n for n in stage.others(seen) if n != number]
            number = there[-1] if there else stage.fresh()
        wanted, words = f"0.5.9+specctl.{number}", stage.words("deploy", number)
    end = time.monotonic() + GOES_ON_S
    while True:
        ended = stage.command(words, Trip())
        if ended.code not in (LOCKED, UNREACHABLE) or time.monotonic() > end:
            return wanted, not back, ended
        time.sleep(2.0)


def notes(stage: Stage, *commands: Ended) -> dict[str, str]:
    """What helps to find the cause."""
    found = {}
    for number, done in enumerate(commands):
        found[f"command {number}"] = f"exit {done.code}\n{done.err[-3000:]}\n{done.out[-3000:]}"
    try:
        found["host"] = repr(stage.look())
        found["watch.log"] = stage.machine.shell(f"tail -n 30 {stage.root}/deadman/watch.log", check=False)
        found["history"] = stage.machine.shell(f"tail -n 6 {stage.root}/history.jsonl", check=False)
        found["units"] = stage.machine.shell(
            "systemctl list-units --all 'specctl-*'; journalctl -n 40 --no-pager", check=False
        )[-6000:]
    except LabError as exc:
        found["lab"] = str(exc)
    return found
