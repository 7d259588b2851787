"""Programs for hosts are put together by many threads at once, one for each host."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from specctl.host import joining
from specctl.host.joining import without_own_imports

TREE = Path(joining.__file__).parents[1] / "release" / "onhost" / "tree.py"


def test_imports_of_our_own_are_left_out_and_lines_keep_their_numbers() -> None:
    text = "from __future__ import annotations\nimport os\nfrom specctl.x import (\n    a,\n    b,\n)\nos\n"
    assert without_own_imports(text).splitlines() == ["", "import os", "", "", "", "", "os"]


class Garbage:
    """Makes the collector run Python code, so that threads take turns in the middle of a parse."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(50))


@pytest.fixture
def _restless() -> Iterator[None]:
    before, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(before)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_restless")
def test_many_threads_at_once_put_the_same_program_together() -> None:
    text = TREE.read_text(encoding="utf-8")

    def work(_: int) -> str:
        for _ in range(20):
            Garbage()
        return without_own_imports(text)

    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(work, range(160)))
    assert len(found) == 1
