"""What is measured: for each experiment its servers and its blocks, the most wanted first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from benchmarks.blocks import Block, Identity, Level, Return, Varying
from benchmarks.crew import LEVELS, Setup

BOTH = ("plain", "v1-static", "v1-lazy", "v2-static", "v2-lazy")


@dataclass(frozen=True)
class Options:
    """What the command line can change. Empty: the experiment's own."""

    servers: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    reps: int = 0
    output: int = 0
    seconds: float = 0.0
    waves: int = 0


@dataclass(frozen=True)
class Experiment:
    """`model`: 8b or tiny. `changes`: what differs from that setup. `alone`: one server at a time."""

    name: str
    what: str
    model: str
    servers: tuple[str, ...]
    blocks: Callable[[tuple[str, ...], Setup, Options], list[Block]]
    changes: dict[str, object] = field(default_factory=dict)
    alone: bool = False

    def setup(self, base: Setup) -> Setup:
        return replace(base, **self.changes)  # type: ignore[arg-type]


def level_blocks(
    levels: tuple[int, ...], output: int, waves: int, reps: int, prompt: int = 256
) -> Callable[[tuple[str, ...], Setup, Options], list[Block]]:
    def make(servers: tuple[str, ...], setup: Setup, options: Options) -> list[Block]:
        chosen = options.levels or levels
        return [
            Level(
                servers,
                c,
                min(prompt, setup.context // 4),
                options.output or output,
                options.waves or waves,
                rep,
                turn=rep * len(chosen) + i,
                exact=bool(options.waves),
            )
            for rep in range(options.reps or reps)
            for i, c in enumerate(chosen)
        ]

    return make


def sweep_blocks(servers: tuple[str, ...], setup: Setup, options: Options) -> list[Block]:
    return [
        Varying(servers, options.seconds or 60.0, min(128, setup.max_running), rep=rep)
        for rep in range(options.reps or 1)
    ]


def hold_blocks(servers: tuple[str, ...], setup: Setup, options: Options) -> list[Block]:
    """At the threshold, one above and one below, for each switched server."""
    found: list[Block] = []
    for name in servers:
        worker, _, manner = name.partition("-")
        n = setup.thresholds.get(worker, 0)
        if n > 1 and manner != "static":
            levels = options.levels or (n, n + 1, n - 1)
            found += [Varying((name,), options.seconds or 15.0, c, hold=c) for c in levels]
    return found


def return_blocks(servers: tuple[str, ...], setup: Setup, options: Options) -> list[Block]:
    n = max(setup.thresholds.values())
    room = setup.max_running - n
    return [
        Return(servers, n, min(4, room), options.output or 320, rep=rep) for rep in range(options.reps or 8)
    ]


def identity_blocks(servers: tuple[str, ...], _: Setup, options: Options) -> list[Block]:
    levels = options.levels or (1, 8, 32)
    others = tuple(dict.fromkeys(("plain", *servers)))
    return [
        Identity(others, c, options.output or 128, rep=rep)
        for rep in range(options.reps or 2)
        for c in levels
    ]


def startup_blocks(servers: tuple[str, ...], _: Setup, options: Options) -> list[Block]:
    """One request a server: what is measured is its start."""
    reps = options.reps or 2
    return [Level((name,), 1, 64, 16, 1, rep, turn=0, exact=True) for rep in range(reps) for name in servers]


ALL = {
    e.name: e
    for e in (
        Experiment(
            "levels",
            "tok/s by concurrency, 256 tokens in and 128 out",
            "8b",
            BOTH,
            level_blocks(LEVELS, 128, waves=2, reps=3),
        ),
        Experiment(
            "long",
            "the same with 512 out",
            "8b",
            BOTH,
            level_blocks(LEVELS, 512, waves=1, reps=2),
            changes={"max_tokens": 102_000},
        ),
        Experiment(
            "crossover",
            "plain beside static, around where they cross",
            "8b",
            ("plain", "v1-static", "v2-static"),
            level_blocks((8, 12, 16, 20, 24, 28, 32, 40, 48), 128, waves=1, reps=2),
        ),
        Experiment(
            "policies",
            "what the draft does while off: lazy, warm, cold",
            "8b",
            ("plain", "v2-lazy", "v2-warm", "v2-cold"),
            level_blocks((32, 64, 128), 256, waves=1, reps=3),
            changes={"max_tokens": 70_000, "thresholds": {"v1": 16, "v2": 16}},
        ),
        Experiment("sweep", "mixed load, 1 to 128 requests and back", "8b", BOTH, sweep_blocks),
        Experiment("hold", "a steady load at the threshold", "8b", ("v1-lazy", "v2-lazy"), hold_blocks),
        Experiment(
            "switch",
            "the steps around a return, real sizes",
            "8b",
            ("v2-lazy", "v2-warm"),
            return_blocks,
            changes={"thresholds": {"v1": 16, "v2": 16}},
        ),
        Experiment(
            "return",
            "accepted length after coming back, a draft that predicts",
            "tiny",
            ("v1-lazy", "v1-warm", "v1-cold", "v2-lazy", "v2-warm", "v2-cold"),
            return_blocks,
        ),
        Experiment(
            "identity",
            "greedy text beside the plain server's",
            "tiny",
            BOTH,
            identity_blocks,
        ),
        Experiment(
            "startup",
            "seconds and memory from start to the first answer",
            "8b",
            ("v2-static", "v2-lazy", "v1-static", "v1-lazy"),
            startup_blocks,
            alone=True,
        ),
        Experiment(
            "fa3",
            "the FA3 attention backend, which SGLang itself takes on a Hopper GPU",
            "8b",
            BOTH,
            level_blocks((1, 8, 32, 128), 128, waves=2, reps=3),
            changes={"backend": "fa3"},
        ),
        Experiment(
            "flashinfer",
            "the flashinfer attention backend",
            "8b",
            ("plain", "v2-static", "v2-lazy"),
            level_blocks((1, 8, 32, 128), 128, waves=2, reps=3),
            changes={"backend": "flashinfer"},
        ),
    )
}
