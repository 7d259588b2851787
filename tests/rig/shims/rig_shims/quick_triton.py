"""Runs SGLang's own bookkeeping kernels quickly on CPU tensors.

Triton's interpreter (TRITON_INTERPRET=1) executes `@triton.jit` functions on CPU tensors, but patches the
whole language for every launch: about 10 ms for a kernel that fills eight numbers, and a speculative step
launches a dozen. This module executes the *same kernel source* with a small numpy implementation of the part
of `triton.language` that those kernels use. A kernel that uses anything else is left to Triton's interpreter.
`tests/rig/test_shims.py` compares the two on random inputs; RIG_TRITON=slow turns this module off.

It is stricter than a GPU in one thing: an unmasked access outside a tensor's storage raises IndexError.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable
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


def install(interpreter: types.ModuleType) -> None:
    """Make `triton.runtime.interpreter` run what it can through QuickKernel."""
    import triton.language

    jit_class = interpreter.InterpretedFunction
    slow_run = jit_class.run
    kernels: dict[Callable[..., None], QuickKernel | None] = {}

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if self.fn not in kernels:
            ok = QuickKernel.can_run(self.fn, jit_class)
            kernels[self.fn] = QuickKernel(self.fn, triton.language.constexpr) if ok else None
        kernel = kernels[self.fn]
        if kernel is None or warmup:
            slow_run(self, *args, grid=grid, warmup=warmup, **kwargs)
        else:
            kernel.launch(grid, args, kwargs)

    jit_class.run = run
