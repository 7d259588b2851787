"""Turns SGLang's own test knob on: retract all decoding requests but the minimum, every so many steps.

SGLANG_TEST_RETRACT does the same, but is read when the scheduler's module is imported: here, long ago.
"""

from __future__ import annotations

from types import ModuleType


def _knob(module: ModuleType) -> None:
    module.TEST_RETRACT = True
    module.TEST_RETRACT_INTERVAL = 40


HOOKS = {"sglang.srt.managers.scheduler": _knob}
