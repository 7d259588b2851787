"""The steps, in order. Each shows what is typed and what comes of it, and checks what it promised."""

from __future__ import annotations

import subprocess
import sys

from rig import environment
from rig.prepare import BASE

from . import burst, site
from .broken import OVERLAY, forget_worker
from .cast import Cast, Step, fields_of
from .extra import plain_texts, the_other_worker

INVENTORY = ("-i", "hosts.yaml")


def build(cast: Cast) -> None:
    """From the published wheel to ours."""
    done = cast.screen.specctl(
        "build", "--base", BASE, "--output", "dist", "--revision", "1", "--validate-with", "./rig-python"
    )
    said = next((x for x in done.text.splitlines() if x.startswith("imported")), "no import")
    cast.promises.check(
        "builds a wheel from the published SGLang",
        done.code == 0 and said.startswith("imported"),
        said,
        "specctl build",
    )
    (wheel,) = (cast.folder / "dist").glob("*.whl")
    judged = cast.screen.specctl("overlay", "status", f"dist/{wheel.name}", keep=8)
    cast.promises.check(
        "every edit is in the wheel", judged.code == 0, f"exit code {judged.code}", "specctl overlay status"
    )
    algorithm = ("--speculative-algorithm", "EAGLE3", "--model-path", "MODEL")
    for worker, words in (
        ("EAGLEWorkerV2", ("SGLANG_ENABLE_SPEC_V2=1",)),
        ("EAGLEWorker", ("SGLANG_ENABLE_SPEC_V2=0",)),
    ):
        said = cast.screen.specctl(
            "route",
            "--architecture",
            "LlamaForCausalLM",
            "--",
            *words,
            "python",
            "-m",
            "sglang.launch_server",
            *algorithm,
            keep=2,
        ).text
        cast.promises.check(
            f"says before the start that {worker} will run",
            f"worker: {worker} " in said,
            said.splitlines()[0],
            "specctl route",
        )


def look(cast: Cast) -> None:
    """The inventory, the host as it is, and the plan."""
    wheels = environment.HOME / "wheels"
    if not list(wheels.glob("supervisor-*")):
        argv = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-qq",
            "--no-deps",
            "-d",
            str(wheels),
            "supervisor<5",
        ]
        subprocess.run(argv, check=True)
    site.make_serving(cast.folder / "serving")
    cast.inventory()
    cast.screen.say(
        f"hosts.yaml: one host over SSH, one server, speculation off above {cast.threshold} requests. The"
        " host has an environment with the published SGLang, and each release adopts it: a thin venv of "
        "its own, laid over it. A locked environment, the default, would install 1.5 GB of packages: "
        "left out here for time. supervisor starts the server, so that no root is needed."
    )
    cast.screen.specctl("hosts", *INVENTORY)
    doctor = cast.screen.specctl("doctor", *INVENTORY)
    cast.promises.check("the host is fit", doctor.code == 0, f"exit code {doctor.code}", "specctl doctor")
    plan = cast.screen.specctl("plan", *INVENTORY, "--dist", "dist")
    cast.promises.check(
        "a plan before anything is changed",
        plan.code == 3 and not cast.root.exists(),
        f"exit code {plan.code}, {len(plan.text.splitlines())} lines",
        "specctl plan",
    )


def deploy(cast: Cast) -> None:
    """The first release, gated on evidence."""
    done = cast.screen.specctl("deploy", *INVENTORY, "--dist", "dist", "--yes")
    cast.promises.check("deploys over SSH", done.code == 0, f"exit code {done.code}", "specctl deploy")
    again = cast.screen.specctl("deploy", *INVENTORY, "--dist", "dist", "--yes")
    cast.promises.check(
        "does nothing when there is nothing to do",
        again.code == 0 and "unchanged" in again.text,
        f"exit code {again.code}, unchanged",
        "specctl deploy, again",
    )
    cast.releases["first"] = cast.current()


def verify(cast: Cast) -> None:
    """All six kinds of evidence, and the marker itself."""
    done = cast.screen.specctl("verify", *INVENTORY, "--exercise")
    headline = next((x for x in done.text.splitlines() if "proven" in x), "")
    cast.promises.check(
        "proves it with all six kinds of evidence",
        done.code == 0 and "6 of 6" in headline,
        headline,
        "specctl verify --exercise",
    )
    marker = cast.marker()
    cast.screen.say("In the server's own log:")
    cast.screen.block(marker)
    worker = fields_of(marker).get("worker", "no marker")
    cast.promises.check(
        "the marker names the worker that really ran",
        worker == "EAGLEWorkerV2",
        f"worker={worker}",
        "server.log",
    )


def switch(cast: Cast) -> None:
    """Off while a burst is above the threshold, on after it, and the plain server's texts."""
    before, many, after = burst.requests(cast.threshold)
    cast.screen.say(
        f"Load: {len(before)} request, then {len(many)} at once, then {len(after)} again. /server_info says:"
    )
    read = cast.log.stat().st_size
    outcome = burst.apply(cast.client, [before, many, after])
    cast.screen.block("\n".join(burst.timeline(outcome.samples)))
    cast.screen.block(
        f"switches {outcome.grew('switches')}, speculative steps {outcome.grew('on_steps')},"
        f" plain steps {outcome.grew('off_steps')}"
    )
    cast.screen.say("In the server's own log:")
    added = cast.log.read_bytes()[read:].decode("utf-8", "replace")
    cast.screen.block("\n".join(x for x in added.splitlines() if "Dynamic speculation: o" in x))
    seen = ", ".join(line.split("speculation ")[1].split()[0] for line in burst.timeline(outcome.samples))
    cast.promises.check(
        f"speculation goes off above {cast.threshold} requests and comes back",
        burst.went_off_and_on(outcome.samples) and outcome.grew("off_steps") > 0,
        f"{seen}; {outcome.grew('off_steps')} plain steps",
        "/server_info under load",
    )
    plain = plain_texts([before, many, after], cast.folder / "plain")
    same = burst.identical(outcome.texts, plain)
    tokens = sum(map(len, plain.values()))
    cast.screen.say(
        f"The published SGLang {BASE} without speculation, asked the same: {same} of {len(plain)} greedy"
        f" texts identical, {tokens} tokens."
    )
    cast.promises.check(
        "texts equal the plain server's",
        same == len(plain) == len(outcome.texts),
        f"{same} of {len(plain)} identical",
        "both servers' /generate",
    )


def broken_release(cast: Cast) -> None:
    """The wrong file was patched; the gate sees it, and the first release serves again."""
    cast.screen.say(
        "Revision 2 is broken in the way this tool was made for: the hooks went into EAGLEWorker, and"
        " EAGLEWorkerV2 runs. It imports, it starts, it generates, and the switch is not there."
    )
    overlays = forget_worker(environment.ROOT / "overlays", cast.folder / "overlays", BASE)
    pinned = cast.screen.specctl(
        "overlay",
        "--overlays",
        "overlays",
        "pin",
        OVERLAY,
        "--base-tree",
        str(environment.tree("base")),
        "--with",
        "known-faults",
        hush=True,
    )
    built = cast.screen.specctl(
        "build",
        "--base",
        BASE,
        "--overlays",
        overlays.name,
        "--output",
        "dist-2",
        "--revision",
        "2",
        "--validate-with",
        "./rig-python",
    )
    cast.promises.check(
        "a broken overlay can be built",
        pinned.code == built.code == 0,
        "it compiles, imports and parses its flags",
        "specctl build",
    )
    done = cast.screen.specctl("deploy", *INVENTORY, "--dist", "dist-2", "--yes")
    cast.promises.check(
        "the broken release is found and rolled back by itself",
        done.code == 6 and "route-not-covered, marker-" in done.text,
        f"exit code {done.code}",
        "specctl deploy",
    )
    cast.screen.specctl("status", *INVENTORY)
    serves = cast.serves()
    cast.screen.say(f"Asked directly, what serves is {serves}.")
    cast.promises.check(
        "the first release serves again",
        cast.current() == cast.releases["first"] and "+specctl.1," in serves,
        serves,
        "current, /server_info, /generate",
    )


def good_release(cast: Cast) -> None:
    """Another revision with another threshold."""
    cast.screen.specctl(
        "build", "--base", BASE, "--output", "dist-3", "--revision", "3", "--no-import", keep=1
    )
    cast.threshold = 5
    cast.inventory()
    cast.screen.say("hosts.yaml now says: off above 5 requests.")
    diff = cast.screen.specctl("diff", *INVENTORY, "--dist", "dist-3", keep=2)
    done = cast.screen.specctl("deploy", *INVENTORY, "--dist", "dist-3", "--yes")
    marker = cast.marker()
    cast.screen.block(marker)
    cast.promises.check(
        "a good second release replaces the first",
        diff.code == 3 and done.code == 0 and fields_of(marker).get("threshold") == "5",
        f"{cast.serves()}, threshold={fields_of(marker).get('threshold')}",
        "server.log, /generate",
    )


def rollback(cast: Cast) -> None:
    """Back by hand."""
    done = cast.screen.specctl("rollback", *INVENTORY, "--yes")
    marker = cast.marker()
    cast.screen.block(marker)
    serves = cast.serves()
    back = cast.current() == cast.releases["first"] and "+specctl.1," in serves
    cast.promises.check(
        "rolls back by hand",
        done.code == 0 and back and fields_of(marker).get("threshold") == "3",
        f"{serves}, threshold={fields_of(marker).get('threshold')}",
        "specctl rollback, server.log, /generate",
    )
    history = cast.screen.specctl("history", *INVENTORY)
    cast.promises.check(
        "remembers what was done", history.code == 0, f"exit code {history.code}", "specctl history"
    )
    cast.screen.specctl("stop", *INVENTORY)


STEPS: tuple[Step, ...] = (
    (f"Build: SGLang {BASE} with the switch, as a wheel", build),
    ("Look: the inventory, the host, the plan", look),
    ("Deploy the first release", deploy),
    ("Verify: what ran, and what it did", verify),
    ("Switch under load, and texts against the plain server", switch),
    ("Deploy a broken release", broken_release),
    ("Deploy a good second release", good_release),
    ("Roll back by hand", rollback),
    ("The other worker: EAGLE on EAGLEWorker", the_other_worker),
)
