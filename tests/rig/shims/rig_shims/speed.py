"""Shims that only save time. Without them the same tokens come out, some ten to fifty times slower.

RIG_TRITON=slow leaves the bookkeeping kernels to Triton's interpreter, RIG_ATTENTION=slow the attention too.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

Patch = Callable[[ModuleType], None]


def register(after_import: Callable[[str, Patch], None]) -> None:
    if os.environ.get("RIG_TRITON") != "slow":
        after_import("triton.runtime.interpreter", _quick_triton)
    if os.environ.get("RIG_ATTENTION") != "slow":
        for kind in ("decode", "extend"):
            after_import(f"sglang.srt.layers.attention.triton_ops.{kind}_attention", _plain_attention(kind))


def _quick_triton(interpreter: ModuleType) -> None:
    from rig_shims import quick_triton

    quick_triton.install(interpreter)


def _plain_attention(kind: str) -> Patch:
    name = f"{kind}_attention_fwd"

    def patch(module: ModuleType) -> None:
        from rig_shims import attention

        # bound by name: the order of the arguments is not the same in every release
        signature, plain = inspect.signature(getattr(module, name)), getattr(attention, name)

        def call(*args: Any, **kwargs: Any) -> None:
            plain(**signature.bind(*args, **kwargs).arguments)

        setattr(module, name, call)

    return patch
