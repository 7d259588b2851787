"""What can go wrong while a server is tuned or its thresholds are changed."""

from __future__ import annotations

from specctl.errors import SpecctlError


class TuneError(SpecctlError):
    """Base of this package."""

    code = "tune"


class NoSwitch(TuneError):
    """The server has no switch whose thresholds could be read or changed."""

    code = "no-switch"


class ThresholdRefused(TuneError):
    """The server said no to a change; its own reason is the message."""

    code = "threshold-refused"


class LoadFailed(TuneError):
    """The load generator ended without a result that can be used."""

    code = "load-failed"
