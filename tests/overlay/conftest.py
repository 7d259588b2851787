from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.builders import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Overlays and a base of this test's own."""
    root = tmp_path / "workshop"
    root.mkdir()
    return Workshop(root)


@pytest.fixture
def unprivileged(tmp_path: Path):
    """A context in which this process is not root, so that file modes count."""

    @contextlib.contextmanager
    def drop() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        for folder in (tmp_path, *tmp_path.parents[:3]):
            if folder.stat().st_uid == 0 and folder != Path("/") and "pytest" in str(folder):
                folder.chmod(0o755)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return drop
