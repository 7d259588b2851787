"""The 0600 file with a server's secret environment: one syntax that systemd and /bin/sh read alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from specctl.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPED = '"\\`$'


def render_env_file(values: Mapping[str, str]) -> bytes:
    """KEY="value" lines, sorted.

    Inside double quotes both readers take a backslash before `"`, `\\`, `` ` `` and `$` as an escape and
    nothing else, so those four are escaped.

    Raises:
        UsageError: a name that is no variable name, or a value with a line break or a NUL, which the file
            cannot carry. The value itself is never in the message.
    """
    lines = []
    for name, value in sorted(values.items()):
        if not _NAME.match(name):
            raise UsageError(f"{name!r} is not a name for an environment variable", code="secret-name")
        if any(c in value for c in "\n\r\0"):
            raise UsageError(
                f"the value of {name} contains a line break or a NUL and cannot be an environment variable",
                code="secret-value",
                hint="strip the line break at its source (a trailing one is removed for you only from files)",
            )
        quoted = "".join("\\" + c if c in _ESCAPED else c for c in value)
        lines.append(f'{name}="{quoted}"\n')
    return "".join(lines).encode()
