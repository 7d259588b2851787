"""Every test of bases has a cache and a configuration of its own, and no package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.builders import make_wheel
from specctl.base.cache import Cache


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The published wheel of these tests."""
    return make_wheel(tmp_path / "published")
