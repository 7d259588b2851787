"""The configurations and the load that several test files share."""

from __future__ import annotations

import pytest

from . import load
from .server import Spec

THRESHOLD = 5  # the load's four streams stay below, every burst goes above
RESUME, RESUME_STEPS = 4, 4  # the overlay's defaults for it
LOAD = load.make()

WORKERS = {"v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}
ALGORITHMS = ("EAGLE", "EAGLE3")


def params(specs: list[Spec], *marks: pytest.MarkDecorator) -> list[object]:
    """Specs as parameters of a test; plugin.py groups tests by how the ids begin."""
    return [pytest.param(spec, id=_id(spec), marks=marks) for spec in specs]


def _id(spec: Spec) -> str:
    sync = [flag for flag in spec.flags if flag in ("lazy", "warm", "cold")]
    return "-".join([spec.name, *sync])


def sliced(specs: list[Spec]) -> list[object]:
    """Specs as parameters, of which `make test` runs a slice with each worker, algorithm, draft and cache."""
    return [
        pytest.param(spec, id=_id(spec), marks=() if _in_slice(spec) else pytest.mark.slow) for spec in specs
    ]


def _in_slice(spec: Spec) -> bool:
    own = {"v1": "EAGLE", "v2": "EAGLE3"}[spec.worker] == spec.algorithm
    return own == spec.radix == (spec.draft == "good")


def never_off(spec: Spec) -> Spec:
    """The same worker, algorithm and draft without the flag: what a loss is measured against."""
    return Spec(worker=spec.worker, algorithm=spec.algorithm, draft=spec.draft, hooks=("probe", "draft_kv"))


MATRIX = [
    Spec(
        worker=worker,
        algorithm=algorithm,
        draft=draft,
        radix=radix,
        threshold=THRESHOLD,
        hooks=("probe", "draft_kv"),
    )
    for worker in WORKERS
    for algorithm in ALGORITHMS
    for draft in ("good", "rand")
    for radix in (True, False)
]
