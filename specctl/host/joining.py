"""Programs for hosts are modules of specctl put together as one text: imports of each other are left out."""

from __future__ import annotations

import ast
import threading

# Two threads that parse at once make CPython 3.11 fail ("AST constructor recursion depth mismatch"), and with
# many hosts there are many threads.
_ALONE = threading.Lock()


def statements(text: str) -> list[ast.stmt]:
    """The statements of a module; of several threads one parses at a time."""
    with _ALONE:
        return ast.parse(text).body


def without_own_imports(text: str) -> str:
    """A module without `from __future__` and without imports from specctl; its lines keep their numbers."""
    lines = text.splitlines()
    for node in statements(text):
        own = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0]
        if own in ("__future__", "specctl"):
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
    return "\n".join(lines)
