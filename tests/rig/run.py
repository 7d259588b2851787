"""One load on one server, and everything that is known afterwards."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from .client import Answer
from .load import Load, drive
from .server import Pool, Server, ServerDied

LEAK = "memory leak detected"


@dataclass(frozen=True)
class Run:
    """What a load on a server gave. `pool_*`: before the load; idle after it; idle with the cache flushed."""

    answers: dict[str, Answer]
    state: dict[str, Any] | None  # dynamic_speculation of /server_info after the load; None: absent
    internal: dict[str, Any]  # the whole internal state after the load
    pool_before: Pool
    pool_idle: Pool
    pool_flushed: Pool
    steps: list[dict[str, Any]]
    log: str
    markers: list[dict[str, str]]
    folder: Path  # what hooks wrote

    @property
    def texts(self) -> dict[str, list[int]]:
        return {rid: answer.tokens for rid, answer in self.answers.items()}

    @property
    def switches(self) -> int:
        """Changes between on and off among consecutive decode steps, counted from the trace."""
        kinds: list[bool] = [step["on"] for step in self.steps]
        return sum(a != b for a, b in itertools.pairwise([True, *kinds]))

    @property
    def longest_off(self) -> int:
        """Decode steps without speculation in a row."""
        longest = current = 0
        for step in self.steps:
            current = 0 if step["on"] else current + 1
            longest = max(longest, current)
        return longest


def run(server: Server, load: Load) -> Run:
    """Apply `load`, let the server go idle, flush its cache.

    Raises:
        ServerDied: SGLang's own idle check found a leak, or the server ended otherwise.
    """
    try:
        return _run(server, load)
    except (OSError, HTTPException) as exc:
        if server.ended_soon():
            raise ServerDied(f"{server.spec.name} ended under load:\n{server.tail()}") from exc
        raise


def _run(server: Server, load: Load) -> Run:
    server.wait_idle()
    server.flush()  # of the token that asking for readiness made
    server.wait_idle()
    before = server.pool()
    answers = drive(server.client, load)
    server.wait_idle()
    internal = server.internal_state()
    idle = server.pool()
    server.flush()
    server.wait_idle()
    flushed = server.pool()
    steps = server.steps() if server.spec.worker != "plain" else []
    return Run(
        answers=answers,
        state=internal.get("dynamic_speculation"),
        internal=internal,
        pool_before=before,
        pool_idle=idle,
        pool_flushed=flushed,
        steps=steps,
        log=server.log_text(),
        markers=server.markers(),
        folder=server.folder,
    )


def differing(texts: dict[str, list[int]], reference: dict[str, list[int]]) -> dict[str, str]:
    """Requests whose text is not the reference's, and where it differs first."""
    out = {}
    for rid, got in texts.items():
        expected = reference[rid]
        if got != expected:
            first = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), None)
            where = "one is a prefix of the other" if first is None else f"differs from token {first} on"
            out[rid] = f"{where}; {len(got)} tokens, plain server {len(expected)}"
    return out
