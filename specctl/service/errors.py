"""What can go wrong with a service on a host."""

from __future__ import annotations

from specctl.errors import SpecctlError
from specctl.exits import ExitCode


class ServiceError(SpecctlError):
    """The supervisor refused; context names host, unit, command and the end of its output."""

    code = "service"


class SupervisorMissing(ServiceError):
    """The configured supervisor is not usable on this host (no systemd, no user manager, no supervisord)."""

    code = "supervisor-missing"


class NotSetUp(ServiceError):
    """`sudo: units`, and root has not set up (or no longer allows) what a unit needs."""

    code = "not-set-up"
    exit_code = ExitCode.USAGE


class StillThere(ServiceError):
    """Processes, GPU memory or the port of the stopped server did not go away."""

    code = "still-there"
