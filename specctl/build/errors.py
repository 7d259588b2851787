"""What can go wrong while a distribution is built."""

from __future__ import annotations

from specctl.errors import SpecctlError, UsageError


class RevisionTaken(UsageError):
    """The revision number stands for other inputs."""

    code = "revision-taken"


class OutputRefused(UsageError):
    """The output folder holds something that is no distribution."""

    code = "output-not-empty"


class Invalid(SpecctlError):
    """The distribution was built but did not pass its validation, so it was not put in place."""

    code = "invalid-distribution"
