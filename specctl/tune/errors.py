"""What can go wrong while a server is tuned or its thresholds are changed."""

from __future__ import annotations

from specctl.errors import SpecctlError


class TuneError(SpecctlError):
    """Base of this package."""

    code = "tune"


class NotAnswering(TuneError):
    """The server does not answer, so nothing is known of its switch."""

    code = "not-answering"


class NoSwitch(TuneError):
    """The server was started without a switch; a start with a threshold may give it one."""

    code = "no-switch"


class ThresholdRefused(TuneError):
    """The running server does not take a change; its own reason is the message."""

    code = "threshold-refused"


class LoadFailed(TuneError):
    """The load generator ended without a result that can be used."""

    code = "load-failed"
