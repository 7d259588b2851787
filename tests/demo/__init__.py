"""The whole job on one machine, as a story of steps: `python -m tests.demo`."""

from __future__ import annotations

import sys
from pathlib import Path

# the rig is found as pytest finds it: as a package of this folder's parent
TESTS = str(Path(__file__).resolve().parents[1])
if TESTS not in sys.path:
    sys.path.append(TESTS)
