"""Unit files for systemd: a `Unit` as text, quoted by the rules of systemd.syntax(7). Pure."""

from __future__ import annotations

from specctl.errors import UsageError
from specctl.service.protocol import Unit

_C_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def render_unit(unit: Unit, *, user_manager: bool) -> str:
    """The whole unit file.

    - `Type=exec`: a start fails when the program cannot be run, instead of being reported as done.
    - `KillMode=mixed`: SIGTERM goes to the main process, which drains; at the deadline SIGKILL goes to the
      whole control group.
    - `LogRateLimit...`: journald must drop none of this unit's lines, or a missing marker means nothing. A
      limit that is never reached: an interval of 0 is not passed on to journald, which then uses its own
      (systemd 252 was seen to drop lines so). Units of a user manager have journald's own limit anyway.
    - The start limit is in [Unit]; `Restart=on-failure` leaves a clean stop alone.
    """
    wanted_by = "default.target" if user_manager else "multi-user.target"
    lines = ["[Unit]", f"Description={specifiers(one_line(unit.description))}"]
    if not user_manager:
        lines += ["Wants=network-online.target", "After=network-online.target nvidia-persistenced.service"]
    lines += [
        f"StartLimitIntervalSec={seconds(unit.start_window_s)}",
        f"StartLimitBurst={unit.start_limit}",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={exec_line(unit.argv)}",
        f"WorkingDirectory={path_value(unit.working_dir)}",
    ]
    if unit.user and not user_manager:
        lines.append(f"User={specifiers(one_line(unit.user))}")
    lines += [f"Environment={quote_word(f'{k}={v}')}" for k, v in sorted(unit.env.items())]
    if unit.env_file:
        lines.append(f"EnvironmentFile={path_value(unit.env_file)}")
    lines += [
        "Restart=on-failure",
        "RestartSec=10",
        "KillMode=mixed",
        "KillSignal=SIGTERM",
        f"TimeoutStopSec={seconds(unit.stop_s)}",
        "SendSIGKILL=yes",
        "StandardOutput=journal",
        "StandardError=journal",
        f"SyslogIdentifier={specifiers(unit.name)}",
        "LogRateLimitIntervalSec=1s",
        "LogRateLimitBurst=1000000000",
    ]
    if not user_manager:
        lines += ["LimitNOFILE=1048576", "LimitMEMLOCK=infinity", "TasksMax=infinity"]
    return "\n".join([*lines, "", "[Install]", f"WantedBy={wanted_by}", ""])


def exec_line(argv: tuple[str, ...]) -> str:
    """The value of ExecStart=: every word quoted, `%` and `$` doubled.

    Raises:
        UsageError: the program is no absolute path, or has a `$` in it (systemd does not undo `$$` there).
    """
    program = argv[0] if argv else ""
    if not program.startswith("/") or "$" in program:
        raise UsageError(
            f"a unit cannot start {program!r}",
            code="unit-program",
            hint="the host's root must be an absolute path without '$'",
        )
    return " ".join(quote_word(word).replace("$", "$$") for word in argv)


def quote_word(word: str) -> str:
    """One word in double quotes where it needs them; C escapes and `%%` inside.

    Raises:
        UsageError: it contains a NUL, which no argument can carry.
    """
    if "\0" in word:
        raise UsageError(f"{word!r} contains a NUL", code="unit-word")
    body = "".join(_C_ESCAPES.get(c) or (f"\\x{ord(c):02x}" if c < " " or c == "\x7f" else c) for c in word)
    plain = word.isascii() and word and all(c.isalnum() or c in "-_./:=,+@%$" for c in word)
    return specifiers(body if plain else f'"{body}"')


def specifiers(text: str) -> str:
    """`%` doubled, so that systemd reads it as itself."""
    return text.replace("%", "%%")


def path_value(path: str) -> str:
    """A path as the value of a setting that takes the rest of the line; no pattern for several files."""
    if not path.startswith("/") or path != path.strip() or any(c < " " or c in "*?[" for c in path):
        raise UsageError(f"{path!r} is not a path that a unit can name", code="unit-path")
    return specifiers(path)


def one_line(text: str) -> str:
    return " ".join(text.split())


def seconds(value: float) -> str:
    """A time span for systemd, whole milliseconds."""
    return f"{round(value * 1000)}ms" if value != int(value) else f"{int(value)}s"
