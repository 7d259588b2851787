"""Fixtures that tests of any folder may ask for: see the plugins' own docstrings."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["lab.plugin", "rig.plugin"]

# a shared machine is slow at times; that is no finding
settings.register_profile("specctl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("specctl")
