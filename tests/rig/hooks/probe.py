"""Lets a test see what a server does not tell: free KV slots, retractions, each decode step.

`/server_info` gets a key "rig" in each internal state; asking for it also appends the decode steps since the
last time to RIG_FOLDER/steps-<tensor-parallel rank>.jsonl, one object a step:
    {"batch": requests, "on": true, "rows": [[rid, tokens with KV before the step, tokens gained], ...]}
A step is "on" when the worker's own `verify` ran in it, so this does not depend on what the overlay reports.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

STEPS: list[dict[str, Any]] = []
SEEN = {"idle_checks": 0, "retracted": 0, "target_forwards": 0, "landings": 0}


def _scheduler(module: ModuleType) -> None:
    scheduler = module.Scheduler
    ask, idle = scheduler.get_internal_state, scheduler.self_check_during_idle

    def self_check_during_idle(self: Any) -> None:
        idle(self)  # ends the server when a slot is missing
        SEEN["idle_checks"] += 1

    def get_internal_state(self: Any, request: Any) -> Any:
        answer = ask(self, request)
        running = len(self.running_batch.reqs) + len(self.waiting_queue)
        if self.cur_batch is not None:
            running += len(self.cur_batch.reqs)
        state = {
            "running": running,
            "idle_checks": SEEN["idle_checks"],
            "landings": SEEN["landings"],
            "pool": {
                "free": self.token_to_kv_pool_allocator.available_size(),
                "evictable": self.tree_cache.evictable_size(),
                "total": self.max_total_num_tokens,
                "rows": self.req_to_token_pool.available_size(),
                "retracted": SEEN["retracted"],
            },
        }
        _write_steps(self.tp_rank)
        SEEN["idle_checks"] = 0
        answer.internal_state = {**answer.internal_state, "rig": state}
        return answer

    scheduler.get_internal_state = get_internal_state
    scheduler.self_check_during_idle = self_check_during_idle


def _write_steps(rank: int) -> None:
    with (Path(os.environ["RIG_FOLDER"]) / f"steps-{rank}.jsonl").open("a") as out:
        out.writelines(json.dumps(step) + "\n" for step in STEPS)
    STEPS.clear()


def _batch(module: ModuleType) -> None:
    retract = module.ScheduleBatch.retract_decode

    def retract_decode(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = retract(self, *args, **kwargs)
        SEEN["retracted"] += len(out[0])
        return out

    module.ScheduleBatch.retract_decode = retract_decode


def _trace(worker: Any, gained_of: Any) -> None:
    forward, verify = worker.forward_batch_generation, worker.verify

    def forward_batch_generation(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            return forward(self, batch, *args, **kwargs)
        STEPS.append({"batch": len(batch.seq_lens), "on": False, "rows": []})
        forwards = SEEN["target_forwards"]
        out = forward(self, batch, *args, **kwargs)
        if SEEN["target_forwards"] == forwards:
            STEPS.pop()  # it only handed over the tokens of the step before
            SEEN["landings"] += 1
        return out

    def traced_verify(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        rids, before = [req.rid for req in batch.reqs], batch.seq_lens.tolist()
        out = verify(self, batch, *args, **kwargs)
        rows = [list(row) for row in zip(rids, before, gained_of(out), strict=True)]
        STEPS[-1].update(on=True, rows=rows)
        return out

    worker.forward_batch_generation, worker.verify = forward_batch_generation, traced_verify


def _target(module: ModuleType) -> None:
    forward = module.TpModelWorker.forward_batch_generation

    def forward_batch_generation(self: Any, *args: Any, **kwargs: Any) -> Any:
        SEEN["target_forwards"] += 1
        return forward(self, *args, **kwargs)

    module.TpModelWorker.forward_batch_generation = forward_batch_generation


def _worker_v1(module: ModuleType) -> None:
    # (logits, verify output, ...); the verify output counts drafted tokens only, the target adds one more
    _trace(module.EAGLEWorker, lambda out: [n + 1 for n in out[1].accept_length_per_req_cpu])


def _worker_v2(module: ModuleType) -> None:
    _trace(module.EAGLEWorkerV2, lambda out: out.accept_lens.tolist())


HOOKS = {
    "sglang.srt.managers.scheduler": _scheduler,
    "sglang.srt.managers.schedule_batch": _batch,
    "sglang.srt.managers.tp_worker": _target,
    "sglang.srt.speculative.eagle_worker": _worker_v1,
    "sglang.srt.speculative.eagle_worker_v2": _worker_v2,
}
