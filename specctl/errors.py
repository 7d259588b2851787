"""The one base class of every error that specctl raises on purpose.

An error is an object, never a printed line: `code` names it for programs, `message` says in one sentence
what is wrong, `context` where it was seen, `hint` what to do next. Only `specctl.cli` renders it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from specctl.exits import ExitCode

LONGEST_MESSAGE = 2_000  # characters; what a host says may be of any length
LONGEST_CONTEXT = 12_000  # characters of each text in a context


class SpecctlError(Exception):
    """Base class.

    Args:
        message: one sentence: what is wrong, with the value that is wrong.
        code: kebab-case name, stable over releases; the class attribute is the default.
        context: ordered label -> text, e.g. {"file": "hosts/a.yaml:12", "path": "hosts.h1.port"}.
        hint: what the reader can do about it, in the imperative.
        exit_code: overrides the class's exit code.
    """

    code: str = "error"
    exit_code: ExitCode = ExitCode.FAILED

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        context: Mapping[str, str] | None = None,
        hint: str | None = None,
        exit_code: ExitCode | None = None,
    ) -> None:
        message = shortened(message, LONGEST_MESSAGE)
        super().__init__(message)
        self.message = message
        self.context = {k: shortened(v, LONGEST_CONTEXT) for k, v in (context or {}).items()}
        self.hint = hint
        if code is not None:
            self.code = code
        if exit_code is not None:
            self.exit_code = exit_code

    def as_dict(self) -> dict[str, object]:
        """The JSON shape of the error, as `--json` prints it."""
        return {
            "code": self.code,
            "message": self.message,
            "context": self.context,
            "hint": self.hint,
            "exit_code": int(self.exit_code),
        }


class UsageError(SpecctlError):
    """The command line or a configuration cannot be used as it is."""

    code = "usage"
    exit_code = ExitCode.USAGE


def shortened(text: str, limit: int) -> str:
    """A text of at most about `limit` characters: some of its beginning, and more of its end."""
    if len(text) <= limit:
        return text
    head = limit // 4
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[head - limit :]}"


def internal_error(exc: BaseException, **context: str) -> SpecctlError:
    """An exception that nobody thought of, as an error: what it was and where in specctl it came from.

    The exception itself, whose frames hold on to everything that was in use, is let go.
    """
    own = [f for f in traceback.extract_tb(exc.__traceback__) if "specctl" in f.filename]
    where = {"where": f"{own[-1].filename}:{own[-1].lineno}"} if own else {}
    return SpecctlError(
        f"{type(exc).__name__}: {exc}"[:500],
        code="internal",
        context={**context, **where},
        hint="a fault of specctl's own; SPECCTL_TRACEBACK=1 shows where, please report it",
    )


def let_go(error: SpecctlError) -> SpecctlError:
    """The same error without the frames that raised it: they keep plans and answers of hosts in memory."""
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    error.__cause__ = error.__context__ = None
    return error
