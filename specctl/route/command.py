"""What people paste: a whole command line of a server, taken apart into environment and server arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_LAUNCHERS = ("sglang.launch_server", "launch_server.py")


def split_command(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Environment and server arguments of `K=V ... python -m sglang.launch_server ARGS`.

    `sglang serve ARGS` and plain ARGS are understood too.
    """
    rest = list(words)
    env: dict[str, str] = {}
    if rest and rest[0] == "env":
        rest.pop(0)
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        env[name] = value
    for at, word in enumerate(rest):
        if word.startswith("--"):
            break
        if word.endswith(_LAUNCHERS):
            return env, rest[at + 1 :]
        if word == "serve" and at and rest[at - 1].rpartition("/")[2] == "sglang":
            return env, rest[at + 1 :]
    return env, rest
