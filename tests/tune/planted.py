"""Samples as a sweep would give them, from planted curves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from specctl.tune.model import Mode, Sample

LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 64)


def crossing_at(at: float) -> Callable[[int], float]:
    return lambda level: max(0.3, 1 - 0.6 * math.log(level / at) / math.log(at))


def samples(
    ratio: Callable[[int], float],
    contexts: tuple[str, ...] = ("256 tokens", "2048 tokens"),
    noise: float = 0.01,
    repetitions: int = 3,
    plain: float | None = None,
    threshold: int | None = None,
    seed: int = 0,
) -> list[Sample]:
    """`ratio`: on over off by level. `plain`: off over plain. `threshold`: also dynamic runs."""
    rng = random.Random(seed)

    def sample(mode: Mode, context: str, level: int, repetition: int, speed: float) -> Sample:
        speed *= math.exp(rng.gauss(0, noise))
        size = float(context.split()[0]) if context[0].isdigit() else 100.0
        accepted = 2.6 if mode in (Mode.ON, Mode.DYNAMIC) else None
        time = 1000 * level / speed
        return Sample(
            mode, context, level, repetition, speed, time, 3 * time, 40, level * 3, size, 128, level, accepted
        )

    out = []
    for context in contexts:
        for level in LEVELS:
            off = 120 * level / (1 + level / 40) / (1 if "256" in context else 1.5)
            for repetition in range(repetitions):
                out.append(sample(Mode.ON, context, level, repetition, off * ratio(level)))
                out.append(sample(Mode.OFF, context, level, repetition, off))
            if plain:
                out.append(sample(Mode.PLAIN, context, level, 0, off / plain))
            if threshold is not None:
                best = off * (ratio(level) if level <= threshold else 1.0)
                out.append(sample(Mode.DYNAMIC, context, level, 0, best))
    return out
