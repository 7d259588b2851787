"""Two servers that are not deployed: the plain one to compare with, and one with the other worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rig import environment
from rig.client import Request
from rig.reference import PLAIN
from rig.server import Nursery, Server, Spec, serve

from . import burst
from .cast import Cast


@contextlib.contextmanager
def rig_server(spec: Spec, folder: Path) -> Iterator[Server]:
    nursery = Nursery(environment.tree(spec.tree))
    try:
        with serve(nursery, spec, folder) as server:
            yield server
    finally:
        nursery.close()


def plain_texts(parts: Sequence[Sequence[Request]], folder: Path) -> Mapping[str, list[int]]:
    """What the published SGLang without speculation answers to the same requests."""
    with rig_server(PLAIN, folder) as server:
        return burst.apply(server.client, parts).texts


def the_other_worker(cast: Cast) -> None:
    """One more server, started by the rig: EAGLE without the overlap scheduler."""
    spec = Spec(worker="v1", algorithm="EAGLE", threshold=3, hooks=())
    with rig_server(spec, cast.folder / "v1") as server:
        (marker,) = server.markers() or [{}]
        outcome = burst.apply(server.client, burst.requests(3))
        shown = [x for x in server.log_text().splitlines() if "Dynamic speculation" in x]
    cast.screen.block("\n".join(shown[:3]))
    cast.screen.block("\n".join(burst.timeline(outcome.samples)))
    cast.promises.check(
        "the same switch on the other worker",
        marker.get("worker") == "EAGLEWorker" and burst.went_off_and_on(outcome.samples),
        f"worker={marker.get('worker')} algorithm={marker.get('algorithm')};"
        f" {outcome.grew('off_steps')} plain steps",
        "a server of the rig: its log and /server_info",
    )
