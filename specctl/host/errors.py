"""What can go wrong between the operator and a host."""

from __future__ import annotations

from specctl.errors import SpecctlError
from specctl.exits import ExitCode


class HostError(SpecctlError):
    """Anything that happened on, or on the way to, one host; context always names the host."""

    code = "host"


class Unreachable(HostError):
    """The host cannot be reached, or the link was lost.

    `started` says whether a command had been sent: if so, it may still be running there.
    """

    code = "unreachable"
    exit_code = ExitCode.UNREACHABLE
    started: bool = False


class HostKeyRefused(Unreachable):
    """The host's key is unknown or has changed."""

    code = "host-key"


class HostTimeout(HostError):
    """A command did not end by its deadline."""

    code = "timeout"


class CommandFailed(HostError):
    """A command ended with a non-zero exit code."""

    code = "command-failed"


class AuthRefused(Unreachable):
    """The host does not take any of the keys that were offered."""

    code = "auth"


class SudoNeedsPassword(HostError):
    """`sudo -n` does not work for this user."""

    code = "sudo-password"
    exit_code = ExitCode.USAGE


class PythonMissing(HostError):
    """The host has no Python that could run a probe or receive a file."""

    code = "python-missing"


class FileRefused(HostError):
    """A file could not be written or read; the subclasses say why."""

    code = "file"


class DiskFull(FileRefused):
    """No space, no inodes or no quota left."""

    code = "disk-full"


class ReadOnly(FileRefused):
    """The file system is mounted read-only."""

    code = "read-only"


class PermissionRefused(FileRefused):
    """The user may not write or read there."""

    code = "permission"
