"""`/server_info` gets a key "ours": what of the overlay the scheduler process has imported and made."""

from __future__ import annotations

import gc
import sys
from types import ModuleType
from typing import Any

PACKAGE = "sglang.srt.speculative.dynamic_disable"


def _scheduler(module: ModuleType) -> None:
    ask = module.Scheduler.get_internal_state

    def get_internal_state(self: Any, request: Any) -> Any:
        answer = ask(self, request)
        made = {type(o).__name__ for o in gc.get_objects() if type(o).__module__.startswith(PACKAGE)}
        attached = getattr(self.draft_worker, "dynamic_disable", None)
        answer.internal_state["ours"] = {
            "modules": sorted(name for name in sys.modules if name.startswith(PACKAGE)),
            "objects": sorted(made),
            "worker_attribute": None if attached is None else type(attached).__name__,
        }
        return answer

    module.Scheduler.get_internal_state = get_internal_state


HOOKS = {"sglang.srt.managers.scheduler": _scheduler}
