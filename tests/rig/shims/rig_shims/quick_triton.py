"""Runs SGLang's own bookkeeping kernels quickly on CPU tensors.

Triton's interpreter (TRITON_INTERPRET=1) executes `@triton.jit` functions on CPU tensors, but patches the
whole language for every launch: about 10 ms for a kernel that fills eight numbers, and a speculative step
launches a dozen. This module executes the *same kernel source* with a small numpy implementation of the part
of `triton.language` that those kernels use. A kernel that uses anything else is left to Triton's interpreter.

RIG_TRITON=slow leaves every kernel to Triton's interpreter. RIG_TRITON=check runs both on copies of the same
arguments, raises when they leave different tensors, and writes how often each kernel was compared to
RIG_FOLDER/kernels-<pid>.json.

It is stricter than a GPU in one thing: an unmasked access outside a tensor's storage raises IndexError.
"""

from __future__ import annotations

import collections
import inspect
import itertools
import json
import os
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Block(np.ndarray):
    """A Triton value: scalar (0-d) or block. Operators are numpy's; only what Triton adds is here."""

    def to(self, dtype: Any) -> Block:
        return self.astype(dtype)

    # `a += 1` rebinds in Triton; numpy's in-place add would change every alias of the block
    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __isub__(self, other: Any) -> Any:
        return self - other


class Pointer:
    """A tensor's storage from its first element on, and an element offset (scalar or block)."""

    __slots__ = ("buffer", "offset")

    def __init__(self, buffer: np.ndarray, offset: Any = 0) -> None:
        self.buffer, self.offset = buffer, offset

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.buffer, self.offset + more)

    def __sub__(self, less: Any) -> Pointer:
        return Pointer(self.buffer, self.offset - less)

    def checked(self, offset: np.ndarray) -> np.ndarray:
        if offset.size and (offset.min() < 0 or offset.max() >= self.buffer.shape[0]):
            size = self.buffer.shape[0]
            raise IndexError(f"kernel access at {offset.min()}..{offset.max()}, outside {size} elements")
        return offset


def pointer_to(tensor: torch.Tensor) -> Pointer:
    length = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return Pointer(tensor.detach().as_strided((length,), (1,), tensor.storage_offset()).numpy())


def _block(value: Any) -> Block:
    return np.asarray(value).view(Block)


class Language:
    """The part of `triton.language` that SGLang's bookkeeping kernels use, for one grid position."""

    constexpr = object()  # only ever an annotation inside a kernel
    int32, int64 = np.int32, np.int64

    def __init__(self) -> None:
        self.position: tuple[int, ...] = (0, 0, 0)
        self.grid: tuple[int, ...] = (1, 1, 1)

    def program_id(self, axis: int) -> Block:
        return _block(self.position[axis])

    def num_programs(self, axis: int) -> int:
        return self.grid[axis]

    @staticmethod
    def arange(start: int, end: int) -> Block:
        return np.arange(start, end).view(Block)

    @staticmethod
    def load(pointer: Pointer, mask: Any = None, other: Any = None) -> Block:
        offset = np.asarray(pointer.offset)
        if mask is None:
            return _block(pointer.buffer[pointer.checked(offset)])
        mask, offset = np.broadcast_arrays(mask, offset)
        out = np.full(offset.shape, 0 if other is None else other, pointer.buffer.dtype)
        out[mask] = pointer.buffer[pointer.checked(offset[mask])]
        return out.view(Block)

    @staticmethod
    def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
        offset = np.asarray(pointer.offset)
        if mask is None:
            pointer.buffer[pointer.checked(offset)] = value
            return
        mask, offset, value = np.broadcast_arrays(mask, offset, value)
        pointer.buffer[pointer.checked(offset[mask])] = value[mask]

    @staticmethod
    def sum(value: Any, axis: int = 0) -> Block:
        return _block(np.asarray(value).sum(axis))

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Block:
        return _block(np.where(condition, a, b))

    @staticmethod
    def cdiv(a: Any, b: Any) -> Any:
        return (a + b - 1) // b

    @staticmethod
    def cast(value: Any, dtype: Any) -> Block:
        return _block(value).astype(dtype)


class QuickKernel:
    """One kernel, bound to `Language`."""

    def __init__(self, fn: Callable[..., None], triton_constexpr: type) -> None:
        self.tl = Language()
        names = {
            name: value.value if isinstance(value, triton_constexpr) else value
            for name, value in fn.__globals__.items()
        }
        self.fn = types.FunctionType(fn.__code__, {**names, "tl": self.tl}, fn.__name__, fn.__defaults__)
        self.signature = inspect.signature(fn)
        self.parameters = set(self.signature.parameters)
        self.triton_constexpr = triton_constexpr

    @staticmethod
    def can_run(fn: Callable[..., None], jit_class: type) -> bool:
        """Whether the kernel uses only names that `Language` has and calls no other kernel."""
        names = fn.__code__.co_names
        used = [n for n in names if not hasattr(Language, n) and n not in ("tl", "to")]
        builtin = {"range", "min", "max"}
        return all(n in builtin for n in used) and not any(
            isinstance(fn.__globals__.get(n), jit_class) for n in names
        )

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return pointer_to(value)
        return value.value if isinstance(value, self.triton_constexpr) else value

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        own = {k: v for k, v in kwargs.items() if k in self.parameters}  # num_warps and the like: not here
        bound = self.signature.bind(*args, **own)
        bound.apply_defaults()
        given = {name: self._argument(value) for name, value in bound.arguments.items()}
        grid = grid(dict(given)) if callable(grid) else grid
        self.tl.grid = tuple(int(n) for n in grid) + (1,) * (3 - len(grid))
        for position in itertools.product(*(range(n) for n in self.tl.grid)):
            self.tl.position = position
            self.fn(**given)


class Launcher:
    """Decides for each launch who runs it; `slow` is the `run` of Triton's own interpreter."""

    def __init__(self, slow: Callable[..., None], jit_class: type) -> None:
        self.slow, self.jit_class = slow, jit_class
        self.kernels: dict[Callable[..., None], QuickKernel | None] = {}
        self.compared: collections.Counter[str] = collections.Counter()

    def quick(self, fn: Callable[..., None]) -> QuickKernel | None:
        if fn not in self.kernels:
            from triton.language import constexpr  # not there yet when this module is loaded

            ok = QuickKernel.can_run(fn, self.jit_class)
            self.kernels[fn] = QuickKernel(fn, constexpr) if ok else None
        return self.kernels[fn]

    def launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        quick = self.quick(kernel.fn)
        mode = os.environ.get("RIG_TRITON", "quick")
        if quick is None or mode == "slow":
            self.slow(kernel, *args, grid=grid, warmup=False, **kwargs)
        elif mode == "check":
            copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
            self.slow(kernel, *copies, grid=grid, warmup=False, **kwargs)
            quick.launch(grid, args, kwargs)
            self._compare(kernel.fn.__name__, copies, args)
        else:
            quick.launch(grid, args, kwargs)

    def _compare(self, name: str, slow: Sequence[Any], quick: Sequence[Any]) -> None:
        for number, (a, b) in enumerate(zip(slow, quick, strict=True)):
            if isinstance(a, torch.Tensor) and not torch.equal(a, b):
                raise AssertionError(
                    f"{name}: argument {number} differs from what Triton's interpreter leaves"
                )
        self.compared[name] += 1
        path = Path(os.environ["RIG_FOLDER"]) / f"kernels-{os.getpid()}.json"
        path.write_text(json.dumps(self.compared))


def install(interpreter: types.ModuleType) -> None:
    """Make `triton.runtime.interpreter` run what it can through QuickKernel."""
    jit_class = interpreter.InterpretedFunction
    launcher = Launcher(jit_class.run, jit_class)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if not warmup:
            launcher.launch(self, args, grid, kwargs)

    jit_class.run = run
