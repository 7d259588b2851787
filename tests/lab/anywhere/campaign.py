"""Many cases over a few lab hosts at once, and what came of them as one JSON document."""

from __future__ import annotations

import importlib
import json
import pkgutil
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specctl.release import actions
from specctl.release.actions.base import Action

from ..deploying import Site
from ..lab import Lab
from .ailments import Ailment, general, of_disks, of_folders
from .cases import Case, Place
from .play import Outcome, play
from .stage import VARIANTS, Stage

KINDS = ("systemd", "systemd-user")


def kinds_of_actions() -> set[str]:
    """Every action that there is, by its name in plans."""
    for module in pkgutil.iter_modules(actions.__path__, actions.__name__ + "."):
        importlib.import_module(module.name)
    found: set[str] = set()
    todo = [Action]
    while todo:
        for cls in todo.pop().__subclasses__():
            todo.append(cls)
            found |= {cls.kind} if cls.kind and cls.__module__.startswith("specctl.") else set()
    return found


class Crew:
    """The stages of one host: one for each variant, made when a case asks for it."""

    def __init__(self, lab: Lab, host: str, kind: str, folder: Path, haste: float) -> None:
        self.lab, self.host, self.kind, self.folder, self.haste = lab, host, kind, folder, haste
        self.stages: dict[str, Stage] = {}
        self.switching: frozenset[str] = frozenset()
        self.made = 0

    def stage(self, variant: str) -> Stage:
        if variant not in self.stages:
            self.made += 1
            folder = self.folder / f"{self.host}-{variant}-{self.made}"
            folder.mkdir(parents=True)
            site = Site(self.lab, folder, f"{self.host}{variant[:2]}")
            port = 31000 + VARIANTS.index(variant)
            stage = Stage(site, self.host, variant, self.kind, port, self.haste)
            stage.begin()
            stage.switching = self.switching
            self.stages[variant] = stage
        return self.stages[variant]

    def forget(self, variant: str) -> None:
        """Begin anew after a case that went wrong."""
        self.stages.pop(variant).clear()

    def ailments(self, variant: str) -> dict[str, Ailment]:
        stage = self.stage(variant)
        found = [*general(), *of_disks(stage.machine), *of_folders(stage.root, stage.server)]
        return {a.name: a for a in found}


def discover(crew: Crew, variants: Sequence[str] = VARIANTS) -> list[Place]:
    """The actions of real plans. A later variant only adds what no earlier one has."""
    found: list[Place] = []
    for variant in variants:
        stage = crew.stage(variant)
        for verb in ("deploy", "rollback") if variant == "full" else ("deploy",):
            known = {p.kind for p in found if p.verb == verb}
            found += [p for p in stage.places(verb) if p.kind not in known]
    return found


def run(
    crews: Sequence[Crew],
    cases: Sequence[Case],
    *,
    until: float,
    tell: Callable[[Outcome], None],
) -> list[Outcome]:
    """Play cases, each on the next host that is free, until the time (monotonic) is over."""
    todo: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        todo.put(case)
    done: list[Outcome] = []
    guard = threading.Lock()

    def work(crew: Crew) -> None:
        with crew.lab.inside():
            while time.monotonic() < until:
                try:
                    case = todo.get_nowait()
                except queue.Empty:
                    return
                outcome = one(crew, case)
                with guard:
                    done.append(outcome)
                    tell(outcome)

    threads = [threading.Thread(target=work, args=(crew,)) for crew in crews]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def one(crew: Crew, case: Case) -> Outcome:
    """One case on one host; whatever goes wrong is its outcome."""
    try:
        outcome = play(crew.stage(case.variant), case, crew.ailments(case.variant))
    except Exception as exc:  # the campaign goes on: a broken case is a case that went wrong
        outcome = Outcome(case, wrong=[f"{type(exc).__name__}: {exc}"])
    if outcome.wrong:
        crew.lab.faults(crew.host).restore()
        if case.variant in crew.stages:
            crew.forget(case.variant)
    return outcome


def summary(places: Sequence[Place], planned: int, done: Sequence[Outcome], **more: Any) -> dict[str, Any]:
    """The document that is kept."""
    lost = [o for o in done if o.wrong]
    by: dict[str, Counter[str]] = {
        "fault": Counter(),
        "action": Counter(),
        "phase": Counter(),
        "verb": Counter(),
    }
    for outcome in done:
        by["fault"][outcome.case.ailment] += 1
        by["action"][f"{outcome.case.verb} {outcome.case.trip.kind or 'any'}"] += 1
        by["phase"][outcome.case.trip.phase if outcome.case.trip.kind else "server"] += 1
        by["verb"][outcome.case.verb] += 1
    return {
        **more,
        "actions": [f"{p.verb} {p.kind}" for p in places],
        "actions that no plan here has": sorted(kinds_of_actions() - {p.kind for p in places}),
        "cases that there are": planned,
        "tried": len(done),
        "struck": sum(o.struck for o in done),
        "survived": len(done) - len(lost),
        "lost": len(lost),
        "exit codes of the command that met the fault": dict(
            sorted(Counter(str(o.code) for o in done).items())
        ),
        "by": {name: dict(sorted(counts.items())) for name, counts in by.items()},
        "what went wrong": [{"id": o.case.id, "wrong": o.wrong} for o in lost],
    }


def write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def say(outcome: Outcome) -> None:
    word = (
        "LOST" if outcome.wrong else "ok" if outcome.struck or not outcome.case.trip.kind else "ok (not met)"
    )
    print(
        f"{word} {outcome.seconds:.0f} s, exit {outcome.code}: {outcome.case.id}",
        *outcome.wrong,
        sep="\n     ",
        file=sys.stderr,
        flush=True,
    )
