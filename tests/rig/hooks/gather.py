"""Holds an idle scheduler until so many requests wait: they run together however slow the clients are.

RIG_FOLDER/gather holds the number; the file is removed when they are there. See `Server.gather`.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any


def _scheduler(module: ModuleType) -> None:
    scheduler = module.Scheduler
    next_batch = scheduler.get_next_batch_to_run

    def get_next_batch_to_run(self: Any) -> Any:
        # a batch that just ran is merged into the running ones by the call that would be held
        if self.last_batch is None and self.running_batch.is_empty():
            wanted = Path(os.environ["RIG_FOLDER"], "gather")
            with contextlib.suppress(FileNotFoundError):
                if len(self.waiting_queue) < int(wanted.read_text()):
                    return None
                wanted.unlink()
        return next_batch(self)

    scheduler.get_next_batch_to_run = get_next_batch_to_run


HOOKS = {"sglang.srt.managers.scheduler": _scheduler}
