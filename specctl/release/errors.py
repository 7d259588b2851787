"""What can go wrong while a release is put on a host."""

from __future__ import annotations

from specctl.errors import SpecctlError
from specctl.exits import ExitCode


class ReleaseError(SpecctlError):
    """A step failed; context names host, step and the end of what it said."""

    code = "release"


class PlanRefused(SpecctlError):
    """What was asked for cannot be, as the facts of the host are; nothing was touched."""

    code = "plan-refused"
    exit_code = ExitCode.USAGE


class PlanChanged(ReleaseError):
    """The host is not as it was when the plan was shown."""

    code = "plan-changed"


class LockHeld(ReleaseError):
    """Another specctl holds the host's lock."""

    code = "locked"
    exit_code = ExitCode.LOCKED


class LockDenied(ReleaseError):
    """The lock could not be made, and not because somebody holds it."""

    code = "lock-denied"


class LockLost(ReleaseError):
    """Somebody broke our lock while we worked."""

    code = "lock-lost"


class InstallFailed(ReleaseError):
    """The environment could not be made; what served before still serves."""

    code = "install-failed"


class UndoneByHost(ReleaseError):
    """The host's own timer acted: the old release was put back without us."""

    code = "undone-by-host"


class GateFailed(ReleaseError):
    """The server did not prove itself; context holds the evidence and the end of its log."""

    code = "gate-failed"


class NoTarget(ReleaseError):
    """There is no release to roll back to."""

    code = "no-target"


class Interrupted(ReleaseError):
    """The operator asked to stop."""

    code = "interrupted"
    exit_code = ExitCode.INTERRUPTED
