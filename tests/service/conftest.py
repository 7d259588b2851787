"""Fixtures of a supervised server, see `standin.supervised`."""

from __future__ import annotations

from standin.supervised import root, site

__all__ = ["root", "site"]
