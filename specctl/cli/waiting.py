"""What hosts keep us waiting for, as lines on stderr: once for each host, however often it is asked again."""

from __future__ import annotations

import logging

from specctl.cli.output import Output


class Waiting(logging.Handler):
    """Shows what `specctl.host` logs, through the stream that progress bars know of."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        host = str(getattr(record, "host", ""))
        if host not in self._told:
            self._told.add(host)
            self._output.note(record.getMessage())


def show_waiting(output: Output) -> None:
    """Show it from now on, in place of whatever showed it before."""
    log = logging.getLogger("specctl.host")
    for handler in [h for h in log.handlers if isinstance(h, Waiting)]:
        log.removeHandler(handler)
    log.addHandler(Waiting(output))
