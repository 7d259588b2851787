"""When speculation is off. Pure bookkeeping on the host: no tensors, no clock, the same on every rank."""

from __future__ import annotations

from sglang.srt.speculative.dynamic_disable.settings import Settings


class Switch:
    """Two thresholds and a dwell.

    Off as soon as a decode batch is larger than `threshold`; on again after `resume_steps` decode steps in a
    row at or below `resume`. Ranks of one tensor-parallel group see the same batches in the same order, so
    each decides alike without talking to the others.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.off = False
        self.batch = 0  # requests in the newest decode batch
        self.switches = 0
        self.on_steps = 0
        self.off_steps = 0
        self._quiet_steps = 0  # in a row at or below the resume threshold

    def would_be_off(self, batch: int) -> bool:
        """What `decide` will say of a batch of this size, without counting it."""
        s = self.settings
        if not self.off or s.threshold == 0:
            return batch > s.threshold
        return batch > s.resume or self._quiet_steps + 1 < s.resume_steps

    def decide(self, batch: int) -> bool:
        """Count one decode step of `batch` requests; True: it runs without speculation."""
        off = self.would_be_off(batch)
        self._quiet_steps = self._quiet_steps + 1 if batch <= self.settings.resume else 0
        self.batch = batch
        if off:
            self.off_steps += 1
        else:
            self.on_steps += 1
        if off != self.off:
            self.off = off
            self.switches += 1
        return off
