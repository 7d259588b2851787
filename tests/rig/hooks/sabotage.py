"""Breaks the overlay on purpose, as RIG_SABOTAGE says, so that tests can show which check notices.

Each function patches one module of the overlay (or of SGLang) right after its import.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

PACKAGE = "sglang.srt.speculative.dynamic_disable"
Patch = Callable[[ModuleType], None]


def _replace(owner: Any, name: str, new: Callable[..., Any]) -> Callable[..., Any]:
    """Put `new` in place of `owner.name` and return the old one. What is not there cannot be broken."""
    old: Callable[..., Any] = getattr(owner, name)
    setattr(owner, name, new)
    return old


def _phantom_slot_v1(step_v1: ModuleType) -> None:
    """Every plain step allocates one KV slot more than it uses: the step's preparation run twice."""

    def alloc_for_decode(batch: Any, token_per_req: int) -> Any:
        batch.token_to_kv_pool_allocator.alloc(1)
        return allocate(batch, token_per_req)

    allocate = _replace(step_v1, "alloc_for_decode", alloc_for_decode)


def _phantom_slot_v2(step_v2: ModuleType) -> None:
    def prepare_decode(self: Any, batch: Any) -> None:
        batch.token_to_kv_pool_allocator.alloc(1)
        prepare(self, batch)

    prepare = _replace(step_v2.PlainStepV2, "prepare_decode", prepare_decode)


def _no_rebuild(rebuild: ModuleType) -> None:
    """Pending pairs are thrown away instead of being written into the draft's KV cache."""

    def run(self: Any, template: Any, view: Any, draft_input: Any) -> None:
        self.pending.forget(view.reqs)

    _replace(rebuild.Rebuild, "run", run)


def _no_reset_at_prefill(controller: ModuleType) -> None:
    """A request inherits the pending pairs of the one that had its row before."""
    _replace(controller.Controller, "after_extend", lambda self, reqs: None)


def _wrong_stride(step_v2: ModuleType) -> None:
    """The tokens of a plain step are not padded to the stride by which the scheduler reads them."""

    def _result(self: Any, logits: Any, tokens: Any, *rest: Any) -> Any:
        out = result(self, logits, tokens, *rest)
        out.next_token_ids = tokens
        return out

    result = _replace(step_v2.PlainStepV2, "_result", _result)


def _hook_left_out(worker: ModuleType) -> None:
    """Only the other worker's file is patched: everything imports and starts, and nothing happens."""

    class Absent:
        attach = staticmethod(lambda *args: None)

    _replace(worker, "dynamic_disable", Absent)


def _no_dwell(switch: ModuleType) -> None:
    _replace(switch.Switch, "would_be_off", lambda self, batch: batch > self.settings.threshold)


def _damaged_kv(controller: ModuleType) -> None:
    """Every tenth plain step zeroes the newest token's key in the target's first layer."""
    count = 0

    def forward_target(self: Any, batch: Any) -> Any:
        nonlocal count
        out = forward(self, batch)
        count += 1
        if count % 10 == 0:
            pool = self.target.model_runner.token_to_kv_pool
            pool.get_key_buffer(0)[batch.out_cache_loc] = 0
        return out

    forward = _replace(controller.Controller, "forward_target", forward_target)


def _uncounted_token(step_v1: ModuleType) -> None:
    """A plain step forgets to say that its slots are in use: those of its step in flight are never freed."""

    def _prepare(self: Any, batch: Any, newest: Any) -> Any:
        out = prepare(self, batch, newest)
        for req in batch.reqs:
            req.kv_allocated_len -= 1
        return out

    prepare = _replace(step_v1.PlainStepV1, "_prepare", _prepare)


def _late_token_kept(in_flight: ModuleType) -> None:
    """A request that was retracted and prefilled again still gets the token of its step in flight."""
    forget = in_flight.InFlight.forget
    _replace(in_flight.InFlight, "forget", lambda self, reqs=None: forget(self) if reqs is None else None)


def _late_token_lost(in_flight: ModuleType) -> None:
    """The first request of a step does not get its token."""
    hand_over = in_flight.InFlight.hand_over

    def lose(self: Any, reqs: Any) -> None:
        if self:
            self._step.reqs[0] = None
        hand_over(self, reqs)

    _replace(in_flight.InFlight, "hand_over", lose)


KINDS: dict[str, tuple[str, Patch]] = {
    "phantom-slot-v1": (f"{PACKAGE}.step_v1", _phantom_slot_v1),
    "phantom-slot-v2": (f"{PACKAGE}.step_v2", _phantom_slot_v2),
    "no-rebuild": (f"{PACKAGE}.rebuild", _no_rebuild),
    "no-reset-at-prefill": (f"{PACKAGE}.controller", _no_reset_at_prefill),
    "wrong-stride": (f"{PACKAGE}.step_v2", _wrong_stride),
    "hook-left-out": ("sglang.srt.speculative.eagle_worker_v2", _hook_left_out),
    "no-dwell": (f"{PACKAGE}.switch", _no_dwell),
    "damaged-kv": (f"{PACKAGE}.controller", _damaged_kv),
    "uncounted-token": (f"{PACKAGE}.step_v1", _uncounted_token),
    "late-token-lost": (f"{PACKAGE}.in_flight", _late_token_lost),
    "late-token-kept": (f"{PACKAGE}.in_flight", _late_token_kept),
}

_module, _patch = KINDS[os.environ["RIG_SABOTAGE"]]
HOOKS = {_module: _patch}
