"""Small matters of English in what people read, and the listener that hears nothing."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 host`, `3 hosts`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def silent(*_: object) -> None:
    """The default of everything that may be told about progress."""
