"""The launch command of a true plain server, with which "off" is compared. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LIMIT_FLAG = "--max-running-requests"


def plain_argv(argv: Sequence[str], limit: int) -> tuple[str, ...]:
    """The launch command without speculation, with the same limit of running requests.

    Without speculation SGLang would allow more of them, and share its memory in another way.
    """
    out: list[str] = []
    dropping = False
    for word in argv:
        if word.startswith("--"):
            dropping = word.startswith("--speculative-")
            if dropping:
                continue
        elif dropping:
            continue
        out.append(word)
    if not any(word.partition("=")[0] == LIMIT_FLAG for word in out):
        out += [LIMIT_FLAG, str(limit)]
    return tuple(out)
