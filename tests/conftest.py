"""Fixtures that tests of any folder may ask for: see the plugins' own docstrings."""

from __future__ import annotations

pytest_plugins = ["lab.plugin"]
