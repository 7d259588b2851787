from __future__ import annotations

from standin.supervised import root, site  # noqa: F401 (fixtures)
