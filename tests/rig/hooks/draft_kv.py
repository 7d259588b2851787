"""Writes the draft model's KV cache of every finished stream to RIG_FOLDER/draft_kv/<rid>.npy.

Shape [2, positions, kv heads, dim]: keys and values of the draft's only layer, for all tokens whose target KV
is committed. The two last tokens of a request have not been given to the draft yet, whatever the mode.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

RUNNERS: list[Any] = []  # the draft model's runner, once the worker is made


def _worker(name: str, draft_runner: Any) -> Any:
    def patch(module: ModuleType) -> None:
        worker = getattr(module, name)
        init = worker.__init__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            RUNNERS.append(draft_runner(self))

        worker.__init__ = __init__

    return patch


def _release(module: ModuleType) -> None:
    release = module.release_kv_cache

    def release_kv_cache(req: Any, *args: Any, **kwargs: Any) -> Any:
        if RUNNERS and req.rid.startswith("stream-") and req.finished():
            _save(req)
        return release(req, *args, **kwargs)

    module.release_kv_cache = release_kv_cache


def _save(req: Any) -> None:
    import numpy as np

    runner = RUNNERS[0]
    length = min(req.kv_committed_len, len(req.origin_input_ids) + len(req.output_ids) - 1)
    slots = runner.req_to_token_pool.req_to_token[req.req_pool_idx, :length].long()
    pool = runner.token_to_kv_pool
    both = [pool.get_key_buffer(0)[slots], pool.get_value_buffer(0)[slots]]
    folder = Path(os.environ["RIG_FOLDER"]) / "draft_kv"
    folder.mkdir(exist_ok=True)
    np.save(folder / f"{req.rid}.npy", np.stack([part.numpy() for part in both]))


HOOKS = {
    "sglang.srt.speculative.eagle_worker": _worker("EAGLEWorker", lambda worker: worker.draft_model_runner),
    "sglang.srt.speculative.eagle_worker_v2": _worker(
        "EAGLEWorkerV2", lambda worker: worker.draft_worker.draft_runner
    ),
    "sglang.srt.managers.scheduler_output_processor_mixin": _release,
}
