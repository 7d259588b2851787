"""The switching rule, written a second time as the documentation has it, to check what servers did."""

from __future__ import annotations

from collections.abc import Iterable


def follow(batches: Iterable[int], threshold: int, resume: int, resume_steps: int) -> list[bool]:
    """For decode batches of these sizes in a row: True where speculation must be on.

    Off as soon as a batch is larger than `threshold`. On again with the `resume_steps`-th batch in a row that
    is `resume` or smaller. A threshold of 0 is always off.
    """
    on, quiet, out = threshold > 0, 0, []
    for batch in batches:
        quiet = quiet + 1 if batch <= resume else 0
        if batch > threshold:
            on = False
        elif not on and threshold > 0 and quiet >= resume_steps:
            on = True
        out.append(on)
    return out
