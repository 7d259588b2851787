"""Programs that run on a host, under whatever Python 3.6 or newer it has: standard library only.

They are read as text and sent over; `params` (a dict) is there before they start, and the last line that
they print is their answer, one JSON document.
"""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def source(name: str) -> str:
    """The text of one program, e.g. "facts"."""
    return resources.files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")


# Reads the program's length, the program and its parameters from stdin and runs it; what is left on stdin
# belongs to the program. One line, because it is the only part that is an argument.
LOADER = (
    "import sys,json;i=sys.stdin.buffer;s=i.read(int(i.readline()));"
    "exec(compile(s,'<specctl>','exec'),{'__name__':'__main__','params':json.loads(i.readline().decode())})"
)
