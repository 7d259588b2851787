"""One site on one lab host: case after case is played on it, each starting from what the last one left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from standin.build import write_wheel

from ..deploying import REPO, Site
from ..machine import Machine
from ..shell import LabError
from .ailments import SICK, Ailment, Patient
from .cases import Case, Place, places
from .looking import look, version_of
from .trip import VARIABLE, Trip

ENDS_S = 240.0  # the longest that a command may take, whatever befalls it
SETTLES_S = 150.0  # the longest that the host may take to end by itself
GOES_ON_S = 180.0  # the longest until the next command is let in, and has ended
VARIANTS = ("full", "adopted", "unfinished")


@dataclass
class Ended:
    """One command."""

    code: int
    out: str
    err: str
    struck: bool = False  # whether the place was reached
    calls: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.out)
        except ValueError:
            return {}
        return found


@dataclass
class Stage:
    """A site of its own (root, server, port) on one host.

    variant: `full` has secrets, a wheelhouse and a unit that changes with each deploy; `adopted` lies over an
    environment of the host; `unfinished` starts from a run that was lost, on a host without our tools.
    """

    site: Site
    host: str
    variant: str = "full"
    kind: str = "systemd"
    port: int = 31000
    haste: float = 0.2
    number: int = 0  # of the newest release
    secret: int = 0
    switching: frozenset[str] = frozenset()  # actions of a plan that installs nothing

    def __post_init__(self) -> None:
        self.server = f"{self.site.tag}-a"
        self.wheels = self.site.folder / "wheels"
        self.wheels.mkdir(parents=True, exist_ok=True)
        self.adopt = f"/srv/app/{self.site.tag}-env"
        more: dict[str, Any] = {"sudo": True} if self.kind == "systemd" else {"supervisor": self.kind}
        if self.variant == "adopted":
            more |= {"environment": "adopted", "adopt": self.adopt}
        else:
            more |= {"wheelhouse": str(self.wheels)}
        self.site.host(self.host, keep_releases=2, **more)
        settings = self.site.hosts[self.host]["servers"][0]
        settings |= {"port": self.port, "timers": {"start": 8, "hold": 2, "stop": 4}}
        if self.variant == "full":
            # one in the environment, one in a file that the server itself reads
            secrets = {name: {"env": "LAB_SECRET"} for name in ("LAB_SECRET", "--admin-api-key")}
            settings["secrets"] = secrets
        self.patient = Patient(self.site, self.host, self.port)

    @property
    def machine(self) -> Machine:
        return self.site.lab.machine(self.host)

    @property
    def root(self) -> str:
        return self.patient.root

    # -- what is deployed

    def dist(self, number: int, sick: str = "") -> Path:
        """A distribution whose lock names one small package."""
        folder = self.site.dist(number, **SICK.get(sick, {}))
        if self.variant != "adopted" and not (folder / "lock-cpu.txt").read_text():
            for old in self.wheels.glob("lab_pad-*"):
                old.unlink()
            pad = write_wheel_named(self.wheels, "lab_pad", str(number))
            digest = hashlib.sha256(pad.read_bytes()).hexdigest()
            (folder / "lock-cpu.txt").write_text(f"lab-pad=={number} --hash=sha256:{digest}\n")
        return folder

    def inventory_of(self, number: int) -> None:
        """What the inventory says when release `number` is deployed: its unit and secrets are its own."""
        if self.variant == "full":
            self.site.hosts[self.host]["servers"][0]["env"] = {"LAB_CASE": str(number)}
            self.site.env["LAB_SECRET"] = f"secret-{number}"

    def words(self, verb: str, number: int, sick: str = "") -> list[str]:
        if verb == "rollback":
            self.secret += 1
            self.site.env["LAB_SECRET"] = f"rotated-{self.secret}"
            return ["rollback", "--yes", "--json"]
        self.inventory_of(number)
        return ["deploy", "--dist", str(self.dist(number, sick)), "--yes", "--json"]

    # -- commands

    def command(self, words: list[str], trip: Trip, ailment: Ailment | None = None) -> Ended:
        """Run specctl with a tripwire, and cause the fault when it goes off."""
        hear, said = os.pipe()
        heard, tell = os.pipe()
        trip = replace(trip, said=said, heard=heard, haste=self.haste)
        path = f"{REPO}{os.pathsep}{REPO / 'tests'}"
        environment = {**self.site.environment(), VARIABLE: trip.to_env(), "PYTHONPATH": path}
        verb, *rest = words
        process = subprocess.Popen(
            [sys.executable, "-m", "lab.anywhere.operator", verb, "-i", str(self.site.inventory), *rest],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(said, heard),
        )
        os.close(said), os.close(heard)
        try:
            with os.fdopen(hear) as lines:
                struck = self._strike(lines, tell, process, ailment)
                out, err = process.communicate(timeout=ENDS_S)
                calls = [json.loads(line[6:]) for line in lines if line.startswith("calls ")]
        finally:
            os.close(tell)
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=30)
        counted = {(kind, phase): n for kind, phase, n in (calls[0] if calls else [])}
        return Ended(process.returncode, out, err, struck, counted)

    def _strike(self, lines: Any, tell: int, process: subprocess.Popen[str], ailment: Ailment | None) -> bool:
        if ailment is None:
            return False
        line = lines.readline()
        if line != "at\n":
            return False
        if ailment.die == "SIGKILL":
            process.wait(timeout=30)
        ailment.strike(self.patient)
        with contextlib.suppress(BrokenPipeError):  # it may have died of it
            os.write(tell, b"go\n")
        if ailment.ease_s is not None:
            time.sleep(ailment.ease_s)
            self.patient.faults.restore()
        return True

    def plainly(self, *words: str) -> Ended:
        """Run specctl without a fault."""
        return self.command(list(words), Trip())

    def look(self) -> dict[str, Any]:
        return look(self.machine, self.root, self.server, self.port)

    # -- beginnings

    def begin(self) -> None:
        """From nothing to a release that serves over another one.

        Raises:
            LabError: a deploy without any fault did not work.
        """
        self.clear()
        if self.variant == "adopted":
            self.machine.shell(f"python3 -m venv --without-pip {self.adopt} && chown -R deploy {self.adopt}")
        self.deploy_plainly()

    def deploy_plainly(self) -> None:
        self.number += 1
        done = self.plainly(*self.words("deploy", self.number))
        if done.code != 0:
            raise LabError(f"a plain deploy ended with {done.code}: {done.err[-2000:]} {done.out[-2000:]}")

    def clear(self) -> None:
        """Remove every trace of the site from its host."""
        tag = self.site.tag
        self.machine.shell(
            f"systemctl stop 'specctl-{tag}*' 'specctl-undo-*'; "
            f"sudo -u deploy XDG_RUNTIME_DIR=/run/user/$(id -u deploy) systemctl --user stop 'specctl-*'; "
            f"pkill -KILL -f 'launch_server.*--port {self.port}'; pkill -KILL -f {self.root}/; "
            f"rm -rf {self.root} /home/deploy/.config/systemd/user/specctl-{tag}* "
            f"/etc/systemd/system/specctl-{tag}* ; "
            "find /etc/systemd/system /home/deploy/.config/systemd/user -name 'specctl-*' -delete; "
            "systemctl daemon-reload; systemctl reset-failed",
            check=False,
        )

    def places(self, verb: str) -> list[Place]:
        """The actions of this site's plan for a verb, as specctl itself shows them, and their calls."""
        self.ready_for(verb)
        self.number += verb == "deploy"
        words = self.words(verb, self.number)
        shown = self.plainly(*[w for w in words if w != "--yes"], "--dry-run")
        host = shown.json["hosts"][0]
        kinds = [action["action"] for action in host["actions"]]
        calls = self.plainly(*words).calls
        if verb == "deploy" and self.variant == "full":
            self.number += 1
            sick = self.plainly(*self.words("deploy", self.number, "dies at start"))
            calls |= {place: n for place, n in sick.calls.items() if place[1] == "undo"}
        return places(self.variant, verb, kinds, calls)

    def ready_for(self, verb: str) -> None:
        """What a case needs to begin: something to prune, and for a rollback, a release to go back to."""
        old = f"{self.root}/releases/0.5.9+specctl.0-00000000"  # half a release, of long ago
        self.machine.shell(f"mkdir -p {old}/venv && touch {old}/venv/file && chown -R deploy: {old}")
        if self.variant == "unfinished":
            self.machine.shell(f"rm -rf {self.root}/bin")
            self.number += 1
            lost = Trip("prepare-root", 1, "during", 1, "after", die="SIGKILL")
            self.command(self.words("deploy", self.number), lost, Ailment("lost", die="SIGKILL"))
            self.unlocked()
        if verb == "rollback" and not self.can_go_back():
            self.deploy_plainly()

    def can_go_back(self) -> bool:
        """Whether the release before is known and still there."""
        seen = self.look()
        before = [r for r, _ in seen["goods"] if r != seen["current"]]
        return bool(before) and before[-1] in seen["usable"]

    def choose(self, case: Case, seen: dict[str, Any]) -> int:
        """The release that a case deploys: a new one where installing it matters, else one that is there."""
        there = [] if case.sick or case.trip.kind not in self.switching else self.others(seen)
        return there[-1] if there else self.fresh()

    def others(self, seen: dict[str, Any]) -> list[int]:
        """Releases that could be deployed without installing them: whole, not failed, not serving."""
        usable = (version_of(r) for r in seen["usable"] if r != seen["current"])
        return sorted(int(version.rpartition(".")[2]) for version in usable)

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def unlocked(self) -> None:
        self.plainly("unlock", "--force", "--json")

    def make_ill(self, release: str, sick: str) -> None:
        """Let a release that lies on the host misbehave from its next start on."""
        path = f"{self.root}/releases/{release}/venv/lib/python3*/site-packages/sglang/standin/knobs.json"
        text = json.dumps(SICK[sick])
        self.machine.shell(f"for f in {path}; do echo '{text}' > $f.x && mv $f.x $f; done")


def write_wheel_named(folder: Path, name: str, version: str) -> Path:
    """A wheel with one module, under a name of its own."""
    return write_wheel(folder, version, {f"{name}.py": f"V = {version!r}\n"}, project=name)


def target(case: Case, seen: dict[str, Any], number: int) -> tuple[str, str]:
    """(version that serves now, version that the case's command leads to)."""
    goods = seen["goods"]
    old = version_of(goods[-1][0])
    if case.verb == "rollback":
        return old, version_of(next(r for r, _ in reversed(goods) if version_of(r) != old))
    return old, f"0.5.9+specctl.{number}"
