"""Files for supervisor (the PyPI package): the daemon's configuration, one program, and its launcher. Pure.

The program's whole command line lives in a launcher script, quoted for /bin/sh: supervisor's ini syntax
cannot carry every argument (it has comments inside lines and `%` expansion).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from specctl.errors import UsageError
from specctl.service.protocol import Unit

LOG_BYTES = 64 << 20  # a log is rotated at this size
LOG_BACKUPS = 5


@dataclass(frozen=True)
class SupervisorPaths:
    """Where supervisor lives below one host's root."""

    root: str

    @property
    def folder(self) -> str:
        return f"{self.root.rstrip('/')}/supervisor"

    @property
    def python(self) -> str:
        return f"{self.folder}/venv/bin/python"

    @property
    def daemon(self) -> str:
        return f"{self.folder}/venv/bin/supervisord"

    @property
    def conf(self) -> str:
        return f"{self.folder}/supervisord.conf"

    @property
    def programs(self) -> str:
        return f"{self.folder}/conf.d"

    @property
    def socket(self) -> str:
        return f"{self.folder}/supervisor.sock"

    def program(self, name: str) -> str:
        return f"{self.programs}/{name}.conf"


def render_daemon(paths: SupervisorPaths) -> str:
    """supervisord.conf: a socket that only this user can open, and every program in conf.d.

    Logs get mode 0600: SGLang prints its keys there.
    """
    folder = ini_value(paths.folder)
    return f"""[unix_http_server]
file={ini_value(paths.socket)}
chmod=0600

[supervisord]
logfile={folder}/supervisord.log
logfile_maxbytes=10MB
logfile_backups=3
pidfile={folder}/supervisord.pid
childlogdir={folder}
directory={folder}
minfds=20000
umask=077

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{ini_value(paths.socket)}

[include]
files={ini_value(paths.programs)}/*.conf
"""


def render_program(unit: Unit, launcher: str) -> str:
    """One program's configuration.

    `autorestart=unexpected` with exit code 0 is systemd's `Restart=on-failure`. `killasgroup` sends SIGKILL
    to the whole process group; SIGTERM goes to the main process only, which drains.
    """
    log = ini_value(unit.log_file or f"{unit.working_dir}/server.log")
    user = f"user={ini_value(unit.user)}\n" if unit.user else ""
    return f"""[program:{ini_value(unit.name)}]
command=/bin/sh {ini_value(launcher)}
directory={ini_value(unit.working_dir)}
{user}umask=022
autostart=true
autorestart=unexpected
exitcodes=0
startsecs=1
startretries={unit.start_limit}
stopsignal=TERM
stopwaitsecs={max(1, round(unit.stop_s))}
stopasgroup=false
killasgroup=true
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes={LOG_BYTES}
stdout_logfile_backups={LOG_BACKUPS}
"""


def render_launcher(unit: Unit) -> str:
    """The script that becomes the server: says which invocation this is, sets the environment, execs.

    The invocation is PID and start time (field 22 of /proc/PID/stat), which `exec` keeps.
    """
    lines = [
        "#!/bin/sh",
        "read -r stat < /proc/$$/stat",
        "set -- ${stat##*) }",
        'echo "specctl: invocation $$.${20}"',
    ]
    if unit.env_file:
        lines += ["set -a", f". {shlex.quote(unit.env_file)} || exit 1", "set +a"]
    lines += [f"export {key}={shlex.quote(value)}" for key, value in sorted(unit.env.items())]
    lines += [f"cd {shlex.quote(unit.working_dir)} || exit 1", f"exec {shlex.join(unit.argv)}", ""]
    return "\n".join(lines)


def ini_value(text: str) -> str:
    """A path or name as an ini value.

    A `%` is refused: supervisor expands some settings twice and others once, so that no doubling is right.

    Raises:
        UsageError: it has blanks or signs that supervisor's configuration cannot carry.
    """
    if not text or any(c.isspace() or c in ";#\"'\\,*?[%" or ord(c) < 32 for c in text):
        raise UsageError(
            f"supervisor cannot use the name or path {text!r}",
            code="unit-path",
            hint="choose a root without blanks, quotes, commas and any of ; # * ? [ %",
        )
    return text
