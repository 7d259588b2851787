"""Hooks for the rig: a target whose steps take their time, and a draft too slow for large batches.

A step of the target takes STEP_S longer, whatever the batch, as if it were bound by reading weights. Drafting
costs nothing more up to LAST_GOOD requests, and three such steps beyond: so speculation pays up to LAST_GOOD.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

STEP_S = 0.06
LAST_GOOD = 5


def _target(module: ModuleType) -> None:
    worker = module.TpModelWorker
    forward = worker.forward_batch_generation

    def forward_batch_generation(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_draft_worker:
            time.sleep(STEP_S)
        return forward(self, *args, **kwargs)

    worker.forward_batch_generation = forward_batch_generation


def _draft(module: ModuleType) -> None:
    worker = module.EAGLEWorker
    draft = worker.draft

    def slow(self: Any, batch: Any) -> Any:
        if batch.batch_size() > LAST_GOOD:
            time.sleep(3 * STEP_S)
        return draft(self, batch)

    worker.draft = slow


HOOKS = {
    "sglang.srt.managers.tp_worker": _target,
    "sglang.srt.speculative.eagle_worker": _draft,
}
