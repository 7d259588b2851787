"""Programs that run on the host, by `Host.script`: standard library only, one file each.

They are modules too, so that their pure parts are tested here and reused (reading one journal line, for
instance, is the same code for `verify` on the host and for `logs -f` here).
"""

from __future__ import annotations

from importlib import resources


def source(name: str) -> str:
    """The text of one of these programs, e.g. source("journal")."""
    return resources.files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
