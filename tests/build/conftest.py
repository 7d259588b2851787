"""A base, an overlay and a plan for every test of builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from base.builders import base_for, make_wheel

from build.builders import CHECKS, make_overlays
from specctl.build.builder import Plan
from specctl.overlay import OverlayStore


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "published")


@pytest.fixture
def store(tmp_path: Path, wheel: Path) -> OverlayStore:
    return make_overlays(tmp_path / "overlays", wheel, checks=CHECKS)


@pytest.fixture
def plan(tmp_path: Path, wheel: Path, store: OverlayStore) -> Callable[..., Plan]:
    """A plan for the small base and overlay; keywords replace its parts."""

    def make(**parts: object) -> Plan:
        usual: dict[str, object] = {
            "base": base_for(wheel),
            "wheel": wheel,
            "overlays": tuple(store.load_all()),
            "revision": 1,
            "output": tmp_path / "out",
            "locks": {"cuda": "six==1.0\n"},
            "python": None,
            "why_no_python": "not asked for",
        }
        return Plan(**{**usual, **parts})  # type: ignore[arg-type]

    return make
