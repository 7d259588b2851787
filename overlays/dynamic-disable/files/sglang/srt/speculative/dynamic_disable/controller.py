"""One controller for each worker: decides each decode step, and runs it when speculation is off."""

from __future__ import annotations

import logging
import time

from sglang.srt.speculative.dynamic_disable.graphs import DecodeGraphs
from sglang.srt.speculative.dynamic_disable.pending import PendingPairs
from sglang.srt.speculative.dynamic_disable.rebuild import Rebuild
from sglang.srt.speculative.dynamic_disable.switch import Switch

logger = logging.getLogger(__name__)

LOG_INTERVAL = 1.0  # seconds between two switch lines of one rank


class Controller:
    """What both workers share. The subclasses add `step`, the plain step itself and what it needs around it."""

    def __init__(self, worker, draft_runner, values):
        self.worker = worker
        self.target = worker.target_worker
        self.topk = worker.topk
        self.switch = Switch(values)
        self.limit = self.target.model_runner.max_running_requests
        self.req_to_token = worker.req_to_token_pool.req_to_token
        self.pending = PendingPairs(
            rows=self.req_to_token.shape[0],
            width=values.pending_pairs,
            keep_all=values.draft_sync != "cold",
            device=worker.device,
        )
        draft_worker = getattr(worker, "draft_worker", worker)  # EAGLEWorker is its own draft worker
        self.rebuild = Rebuild(draft_worker, draft_runner, self.topk, self.pending, self.req_to_token)
        self.graphs = DecodeGraphs(self.target.model_runner, values.threshold)
        self._logged_at = float("-inf")
        self._unlogged = 0

    @property
    def has_graphs(self) -> bool:
        return self.graphs.runner is not None

    def after_extend(self, reqs) -> None:
        """A prefill wrote the draft KV of every token of these requests."""
        self.pending.forget(reqs)

    def decide(self, batch: int) -> bool:
        """True: this decode step runs without speculation. Switches are logged, at most one line a second."""
        before = self.switch.switches
        off = self.switch.decide(batch)
        if self.switch.switches != before:
            self._log_switch(off, batch)
        return off

    def _log_switch(self, off: bool, batch: int) -> None:
        now = time.monotonic()
        if now - self._logged_at < LOG_INTERVAL:
            self._unlogged += 1
            return
        s = self.switch.settings
        more = f" ({self._unlogged} switches before it not logged)" if self._unlogged else ""
        if off:
            logger.info(f"Dynamic speculation: off, batch {batch} > {s.threshold}{more}")
        else:
            logger.info(f"Dynamic speculation: on, batch {batch} <= {s.resume} for {s.resume_steps} steps{more}")
        self._logged_at, self._unlogged = now, 0

    def forward_target(self, batch):
        """One plain DECODE forward of the target with the stock sampler."""
        with self.graphs.in_place():
            return self.target.forward_batch_generation(batch)

    def prepare_decode(self, batch) -> None:
        """Only EAGLEWorkerV2 prepares a step ahead."""

    def known_sum(self, batch):
        """Sum of the lengths of `batch`, if it can be known without waiting for the device."""
        return None
