"""Fixtures that tests of any folder may ask for: see the plugins' own docstrings."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["lab.plugin", "rig.plugin"]

# pytest-xdist gives its workers 80 columns; what a test runs writes into a pipe, and a pipe has no width
os.environ.pop("COLUMNS", None)

# a run that was started in the background ignores Ctrl-C, and so would every specctl that a test interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)

# a shared machine is slow at times; that is no finding
settings.register_profile("fuzz", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# the same examples in every run: a change is judged by what it changed; `make fuzz` looks for new ones
settings.register_profile("fixed", settings.get_profile("fuzz"), derandomize=True)
settings.load_profile("fixed")
