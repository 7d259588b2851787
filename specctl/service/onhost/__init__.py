"""Programs that run on the host, by `Host.script`: standard library only.

They are modules too, so that their pure parts are tested here and reused (reading one journal line, for
instance, is the same code for `verify` on the host and for `logs -f` here).
"""

from __future__ import annotations

import functools
from importlib import resources

from specctl.host.joining import without_own_imports


def source(*names: str) -> str:
    """The text of these programs as one, e.g. source("textlog"). The last one runs."""
    return joined(__name__, names)


@functools.cache
def joined(package: str, names: tuple[str, ...]) -> str:
    """Programs of a package one after the other; their imports of each other are left out, as they then
    share one namespace. Put together once, and only when a host is asked."""
    parts = [resources.files(package).joinpath(f"{name}.py").read_text(encoding="utf-8") for name in names]
    return "\n".join(["from __future__ import annotations", *map(without_own_imports, parts), ""])
