"""Programs for hosts are put together by many threads at once, one for each host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specctl.host import joining
from specctl.host.joining import without_own_imports

TREE = Path(joining.__file__).parents[1] / "release" / "onhost" / "tree.py"


def test_imports_of_our_own_are_left_out_and_lines_keep_their_numbers() -> None:
    text = "from __future__ import annotations\nimport os\nfrom specctl.x import (\n    a,\n    b,\n)\nos\n"
    assert without_own_imports(text).splitlines() == ["", "import os", "", "", "", "", "os"]


def test_sixty_four_threads_at_once_put_the_same_program_together() -> None:
    text = TREE.read_text(encoding="utf-8")
    with ThreadPoolExecutor(64) as pool:
        found = set(pool.map(without_own_imports, [text] * 400))
    assert len(found) == 1
