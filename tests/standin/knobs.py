"""What a stand-in server does wrong on purpose."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

PREFIX = "STANDIN_"
BAKED = "knobs.json"


@dataclass(frozen=True)
class Knobs:
    """Defaults are a well-behaved server.

    Set by `STANDIN_<NAME>` in the environment, or baked into the wheel; the environment wins. Booleans are
    "1" or "0", seconds are floats.
    """

    # the marker
    no_marker: bool = False
    marker_text: str = "Dynamic speculation disable enabled"
    marker_worker: str = ""  # report this class instead of the one that the arguments select
    marker_threshold: int = -1  # report this threshold; -1: the real one
    marker_missing_rank: int = -1  # this rank stays silent
    marker_delay_s: float = 0.0
    # the log
    not_utf8: bool = False  # bytes 0xe9, ANSI colours, emoji and carriage returns around and in the marker
    flood_lines: int = 0  # log lines per second
    long_line: int = 0  # one line of this many bytes at start
    # the process
    start_s: float = 0.2  # seconds until it is healthy
    die_at_start: bool = False  # a traceback and exit 1 before it listens
    die_after_s: float = 0.0  # exit 1 this long after it became healthy
    ignore_sigterm: bool = False
    stray_child: bool = False  # a child in a session of its own that ignores SIGTERM
    drain_s: float = 0.0  # seconds that SIGTERM takes
    # the answers
    hang_after_s: float = 0.0  # health stays 200, generations never come, from then on
    html: bool = False
    wrong_types: bool = False
    slow_s: float = 0.0  # seconds before each answer
    huge: int = 0  # bytes of each answer
    empty_text: bool = False
    only_old_info: bool = False  # /server_info is 404, /get_server_info answers
    # the switch
    hooks: str = "v1,v2"  # which worker classes the overlay covers; the other runs as upstream's
    never_off: bool = False
    never_on: bool = False
    no_decode_graphs: bool = False
    no_state: bool = False  # /server_info lacks dynamic_speculation
    no_live: bool = False  # there is no /set_internal_state
    live_changes: int = -1  # so many changes are taken, the rest is refused with a reason; -1: all are taken
    die_with_threshold: int = -1  # started with this threshold it dies at start
    wrong_text_off: bool = False  # another text while off
    device: str = "cuda"  # as /server_info says it
    dtype: str = "bfloat16"
    step_s: float = 0.01  # seconds per decode step
    draft_s: float = 0.0  # more of them for each request of the batch, while on

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ, baked: Path | None = None) -> Knobs:
        """Baked values, then the environment's. An unknown name is an error: a typo would test nothing."""
        values: dict[str, Any] = {}
        if baked is not None and baked.exists():
            values.update(json.loads(baked.read_text(encoding="utf-8")))
        values.update({k[len(PREFIX) :].lower(): v for k, v in environ.items() if k.startswith(PREFIX)})
        return cls.checked(values)

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Knobs:
        """Knobs from names and texts or values; raises ValueError for a name that is no knob."""
        kinds = {f.name: type(f.default) for f in fields(cls)}
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise ValueError("no such knob: " + ", ".join(unknown))
        out: dict[str, Any] = {}
        for name, value in values.items():
            kind = kinds[name]
            if kind is bool and isinstance(value, str):
                out[name] = value.lower() in ("1", "true", "yes")
            else:
                out[name] = kind(value)
        return cls(**out)
