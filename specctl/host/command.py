"""From what a caller wants to run to the words that do it. Pure; nothing is quoted here but by `line`."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LONGEST_SHOWN = 300  # characters of a command in an error

# Whatever umask the login has: with 000 others could write to what we make, with 077 the account that runs
# the servers could not read it. Secret files get their mode when they are made.
_UMASK = "umask 022; "
# A shell between us and the command turns 'killed by signal N' into the exit code 128+N, which an ssh
# server would otherwise report in a way that looks like a lost link.
_PLAIN = _UMASK + '"$@"; exit $?'
_IN_FOLDER = _UMASK + 'cd -- "$1" || exit 125; shift; "$@"; exit $?'
# Ends the command when its stdin ends, so that closing the channel stops a command that says nothing.
_WHILE_WATCHED = (
    _UMASK + 'exec 3<&0; "$@" </dev/null & command=$!; '
    "{ read -r _ <&3; kill $command; } >/dev/null 2>&1 & watcher=$!; "
    "exec 3<&-; wait $command; code=$?; kill $watcher 2>/dev/null; exit $code"
)
_FIRST_PYTHON = (
    "program=$1; shift; "
    'for p do command -v "$p" >/dev/null 2>&1 && exec "$p" -I -c "$program"; done; exit 127'
)
KILL_AFTER_S = 5  # from SIGTERM to SIGKILL of a command that outlived its deadline


def wrap(
    argv: Sequence[str],
    *,
    sudo: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    deadline_s: float | None = None,
    watched: bool = False,
) -> tuple[str, ...]:
    """The words that run `argv` as asked.

    Args:
        sudo: through `sudo -n`, which fails rather than ask.
        env: variables that are not secret; they show in the host's process list.
        cwd: folder to run in.
        deadline_s: seconds after which the host itself ends the command, even when nobody is connected.
        watched: end the command when its stdin ends.

    Raises:
        ValueError: `argv` is empty, a word holds a NUL, or a variable's name is not one.
    """
    if not argv:
        raise ValueError("an empty command")
    words: list[str] = []
    if sudo:
        words += ["sudo", "-n", "-H", "--"]
    if deadline_s is not None:
        words += ["timeout", "-k", str(KILL_AFTER_S), str(math.ceil(deadline_s))]
    if env:
        bad = [name for name in env if not _NAME.match(name)]
        if bad:
            raise ValueError(f"not the name of an environment variable: {bad[0]!r}")
        words += ["env", *(f"{name}={value}" for name, value in env.items())]
    if watched:
        words += ["sh", "-c", _WHILE_WATCHED, "sh"]
    if cwd is not None:
        words += ["sh", "-c", _IN_FOLDER, "sh", cwd]
    elif not watched:
        words += ["sh", "-c", _PLAIN, "sh"]
    words += argv
    if any("\0" in word for word in words):
        raise ValueError("a NUL byte in a command")
    return tuple(words)


def line(words: Sequence[str]) -> str:
    """One line for a POSIX shell: every word reaches the command as it is."""
    return shlex.join(words)


def shown(argv: Sequence[str]) -> str:
    """A command as errors show it, not longer than a few lines."""
    text = shlex.join(argv).replace("\n", "\\n")
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 4] + " ..."


def python(source: str, interpreters: Sequence[str]) -> tuple[str, ...]:
    """Run a one-line Python program under the first interpreter that exists; exit code 127 when none does."""
    return ("sh", "-c", _FIRST_PYTHON, "sh", source, *interpreters)
