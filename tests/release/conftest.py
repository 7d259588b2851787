"""A sandbox host for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from release.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    yield made
    made.close()
