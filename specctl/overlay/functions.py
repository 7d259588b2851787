"""Which function a line belongs to, and the fingerprint of a function's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from specctl.overlay.model import Change, sha256, split_lines

MODULE = "<module>"


@dataclass(frozen=True)
class Span:
    """Lines [start, end) of one def or class, decorators included; 0-based."""

    name: str  # dotted, e.g. "Scheduler.run" or "outer.inner"; a second one of a name is "name#2"
    start: int
    end: int
    is_class: bool


class SourceMap:
    """The functions and classes of one file; one that is no Python, or broken, has only `<module>`."""

    def __init__(self, data: bytes) -> None:
        self.lines = split_lines(data)
        self.spans = tuple(_spans(data))
        self._by_name = {span.name: span for span in self.spans}

    def __contains__(self, name: str) -> bool:
        return name == MODULE or name in self._by_name

    def names(self) -> list[str]:
        return list(self._by_name)

    def span(self, name: str) -> Span:
        """Raises KeyError when there is no such function."""
        if name == MODULE:
            return Span(MODULE, 0, len(self.lines), True)
        return self._by_name[name]

    def innermost(self, line: int) -> str:
        """Name of the innermost def or class that holds the 0-based line, else `<module>`."""
        best: Span | None = None
        for span in self.spans:
            if span.start <= line < span.end and (best is None or span.start >= best.start):
                best = span
        return best.name if best else MODULE

    def source(self, name: str) -> bytes:
        """What the fingerprint covers: a function whole; a class or module without the defs inside it."""
        span = self.span(name)
        if not span.is_class:
            return b"".join(self.lines[span.start : span.end])
        inner = [s for s in self.spans if span.start <= s.start and s.end <= span.end and s.name != name]
        hidden = {line for s in inner for line in range(s.start, s.end)}
        return b"".join(self.lines[i] for i in range(span.start, span.end) if i not in hidden)

    def fingerprint(self, name: str) -> str:
        return sha256(self.source(name))


def functions_of(change: Change, base: SourceMap, edited: SourceMap, edited_start: int) -> list[str]:
    """Names in the base of the innermost functions that a change touches.

    Removed lines are looked up in the base, added ones in the edited file; a function that the change itself
    adds counts as its nearest surrounding one that the base has. Blank lines count only when there is nothing
    else.
    """
    rows = [(base.innermost(change.start + i), line) for i, line in enumerate(change.removed)]
    for i, line in enumerate(change.added):
        name = edited.innermost(edited_start + i)
        while name not in base:
            name = name.rpartition(".")[0] or MODULE
        rows.append((name, line))
    telling = [name for name, line in rows if line.strip()] or [name for name, _ in rows]
    return list(dict.fromkeys(telling))


def _spans(data: bytes) -> Iterator[Span]:
    # A lone CR ends a line for Python and not for a diff; it changes nothing here but line numbers.
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b" ")
    tree = _parse(text)
    seen: dict[str, int] = {}

    def walk(node: ast.AST, prefix: str) -> Iterator[Span]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from walk(child, prefix)
                continue
            name = prefix + child.name
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f"#{seen[name]}"
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield Span(name, first - 1, child.end_lineno or child.lineno, isinstance(child, ast.ClassDef))
            yield from walk(child, name + ".")

    if tree is not None:
        yield from walk(tree, "")


def _parse(text: bytes) -> ast.AST | None:
    for source in (text, text.decode("latin-1")):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None
