"""What the plain server says to a load, kept on disk until SGLang, the models or the load change."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import environment
from .load import Load, answer_all
from .server import Server, Spec

# With overlap SGLang applies penalties one token late, so the reference runs without it.
PLAIN = Spec(worker="plain", tree="base", flags=("--disable-overlap-schedule",))


@functools.cache
def _fingerprint() -> str:
    """Of everything but the load: the published wheel, the models, the rig's shims."""
    record = next(environment.tree("base").glob("sglang-*.dist-info/RECORD"))
    parts = [
        record,
        *sorted(environment.MODELS.rglob("*.safetensors")),
        *sorted(environment.SHIMS.rglob("*.py")),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.read_bytes()).digest())
    return digest.hexdigest()


def _key(spec: Spec, load: Load) -> str:
    bodies = [request.body() for request in load.requests]
    told = json.dumps([_fingerprint(), spec.argv(0), bodies, load.parallel, load.again], default=str)
    told = told.replace(str(environment.ROOT), "")
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One test process computes, the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def answers(
    serve: Callable[[Spec], contextlib.AbstractContextManager[Server]], load: Load, spec: Spec = PLAIN
) -> dict[str, dict[str, Any]]:
    """Request id -> {"tokens", "finish", "meta"} of all requests of `load`; asked once, then from disk."""
    path = environment.CACHE / f"{_key(spec, load)}.json"
    with _locked(path.with_suffix(".lock")):
        if not path.exists():
            with serve(spec) as server:
                said = answer_all(server.client, load)
            content = {rid: vars(answer) for rid, answer in said.items()}
            scratch = path.with_suffix(".part")
            scratch.write_text(json.dumps(content))
            scratch.replace(path)
    loaded = json.loads(path.read_text())
    assert isinstance(loaded, dict)
    return loaded
