"""The exit codes of every specctl command: one enum, from which documentation and tests are made."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a specctl process tells its caller; `meaning` is the sentence that the documentation prints."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CHANGES = 3
    UNREACHABLE = 4
    LOCKED = 5
    ROLLED_BACK = 6
    DOWN = 7
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done, or nothing to do",
    ExitCode.FAILED: "failed; what was there before is untouched or said otherwise",
    ExitCode.USAGE: "wrong usage, or a configuration that cannot be used; nothing was done on any host",
    ExitCode.CHANGES: "the plan has changes, drift was found, or `watch` warns",
    ExitCode.UNREACHABLE: "a host could not be reached",
    ExitCode.LOCKED: "another specctl holds the lock of a host",
    ExitCode.ROLLED_BACK: "failed, and the old release serves again",
    ExitCode.DOWN: "failed, and the rollback failed too: the service is down",
    ExitCode.INTERRUPTED: "interrupted by the operator",
}
