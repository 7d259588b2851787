"""Fixtures of the host lab, for tests in any folder.

`lab` starts three hosts once for each test process; `in_lab` is what a test asks for: it moves the test's
thread into the lab's network (threads that the test starts follow) and takes back faults afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from . import image
from .lab import Lab, of_process

HOSTS = 3


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of this process, with hosts h1, h2, h3; skips where no lab can run."""
    reason = image.why_not()
    if reason:
        pytest.skip(reason)
    made = of_process()
    try:
        made.up(HOSTS, owner=os.getpid())
        yield made
    finally:
        made.down()


@pytest.fixture
def in_lab(lab: Lab) -> Iterator[Lab]:
    """The lab, with the test running inside its network and its hosts free of faults."""
    with lab.inside():
        yield lab
        lab.restore()
