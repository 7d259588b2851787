"""The one base class of every error that specctl raises on purpose.

An error is an object, never a printed line: `code` names it for programs, `message` says in one sentence
what is wrong, `context` where it was seen, `hint` what to do next. Only `specctl.cli` renders it.
"""

from __future__ import annotations

from collections.abc import Mapping

from specctl.exits import ExitCode


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
        super().__init__(message)
        self.message = message
        self.context = dict(context or {})
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
