"""The one shape of what verbs about hosts print with `--json`.

    {"hosts": [{"host": ...}], "errors": [{"host": ..., "code": ..., "message": ...}], "exit_code": 0}

Verbs about servers say "servers" in place of "hosts", and each of its rows names "host" and "server". A host
that could not be asked is among "errors". What ends the whole command is {"error": {...}}, see
`specctl.errors`; `logs` and `watch` print such an object, or one for each line or look, on a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specctl.errors import SpecctlError
from specctl.exits import ExitCode
from specctl.host.parallel import Outcome

Errors = Iterable[tuple[str, SpecctlError]]


def document(code: ExitCode, errors: Errors, **rows: Any) -> dict[str, Any]:
    """The whole document; `rows` are its other keys, in their order."""
    told = [{"host": host, **error.as_dict()} for host, error in errors]
    return {**rows, "errors": told, "exit_code": int(code)}


def errors_of(outcomes: Sequence[Outcome[Any, Any]]) -> list[tuple[str, SpecctlError]]:
    """What kept hosts away, by their names."""
    return [(outcome.key.name, outcome.error) for outcome in outcomes if outcome.error is not None]
