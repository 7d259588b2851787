"""Shims that only save time. Without them the same tokens come out, some ten to fifty times slower.

RIG_TRITON says who runs the bookkeeping kernels, see quick_triton.py. RIG_ATTENTION=slow leaves attention to
the Triton kernels in Triton's interpreter; RIG_ATTENTION=check runs both and raises when they differ.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

Patch = Callable[[ModuleType], None]

ROUNDING = 1e-4  # the kernels sum in another order


def register(after_import: Callable[[str, Patch], None]) -> None:
    after_import("triton.runtime.interpreter", _quick_triton)
    for kind in ("decode", "extend"):
        after_import(f"sglang.srt.layers.attention.triton_ops.{kind}_attention", _plain_attention(kind))


def _quick_triton(interpreter: ModuleType) -> None:
    from rig_shims import quick_triton

    quick_triton.install(interpreter)


def _plain_attention(kind: str) -> Patch:
    name = f"{kind}_attention_fwd"
    result = {"decode": "o", "extend": "o_extend"}[kind]

    def patch(module: ModuleType) -> None:
        from rig_shims import attention

        slow, plain = getattr(module, name), getattr(attention, name)
        signature = inspect.signature(slow)  # bound by name: releases differ in the order of the arguments

        def call(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            mode = os.environ.get("RIG_ATTENTION", "plain")
            if mode != "plain":
                slow(**given)
            if mode == "check":
                expected = given[result].clone()
                plain(**given)
                if (off := float((given[result] - expected).abs().max())) > ROUNDING:
                    raise AssertionError(f"plain {kind} attention differs from the Triton kernel by {off}")
            elif mode == "plain":
                plain(**given)

        setattr(module, name, call)

    return patch
