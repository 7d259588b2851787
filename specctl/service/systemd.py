"""A server under systemd: the system manager, or the user manager of the login user."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from specctl.config.model import Supervisor
from specctl.host.errors import CommandFailed
from specctl.host.protocol import Host, Result
from specctl.service import systemd_argv as argv
from specctl.service.account import Account, read_account
from specctl.service.errors import ServiceError, SupervisorMissing
from specctl.service.logs import as_log_slice, journal_line
from specctl.service.onhost import journal_entry, source
from specctl.service.protocol import Cursor, LogLine, LogSlice, ServiceState, StopOutcome, Unit, UnitFile
from specctl.service.stopping import await_gone, list_processes
from specctl.service.systemd_unit import render_unit

START_S = 90.0  # for `systemctl start` of a Type=exec unit: fork and exec, not the model's loading
READ_S = 120.0
JOURNAL = ("journal_entry", "journal_limits", "journal")  # programs that read the journal on the host
SETTLE_S = 15.0  # for the manager to notice that the processes are gone


class SystemdService:
    """One unit of the system manager (`user=False`) or of a user manager.

    Args:
        host: where it lives.
        name: the unit's name without suffix, e.g. specctl-main.
        user: whether it belongs to the login user's own manager.
        sudo: run systemctl and journalctl through `sudo -n`; only for the system manager.
        sleep: waits, in seconds.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        user: bool,
        sudo: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host, self.user, self.sudo = host, user, sudo and not user
        self.plain = name
        self.name = f"{name}.service"
        self.kind = Supervisor.SYSTEMD_USER if user else Supervisor.SYSTEMD
        self._sleep = sleep
        self._account: Account | None = None

    # -- the unit file

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        folder = f"{self.account.home}/.config/systemd/user" if self.user else "/etc/systemd/system"
        text = render_unit(unit, user_manager=self.user)
        return (UnitFile(f"{folder}/{self.name}", text.encode()),)

    def installed(self, unit: Unit) -> bool:
        return all(self.host.read(f.path, sudo=self.sudo) == f.data for f in self.files(unit))

    def install(self, unit: Unit) -> bool:
        changed = not self.installed(unit)
        if changed:
            for file in self.files(unit):
                folder = file.path.rsplit("/", 1)[0]
                self.host.run(["mkdir", "-p", folder], sudo=self.sudo)
                self.host.write(file.data, file.path, mode=file.mode, sudo=self.sudo)
            self._systemctl("daemon-reload")
        if self._systemctl("is-enabled", "--", self.name, check=False).text.strip() != "enabled":
            self._systemctl("enable", "--", self.name)
            changed = True
        if self.user and not self.account.linger:
            self._enable_linger()
            changed = True
        return changed

    def prepare(self) -> None:
        """systemd is there, or nothing is."""

    def uninstall(self) -> None:
        state = self.state()
        if state.exists:
            self.stop(30.0)
            self._systemctl("disable", "--", self.name, check=False)
        unit = Unit(self.plain, "", ("/",), "/")
        for path in (f.path for f in self.files(unit)):
            self.host.run(["rm", "-f", "--", path], sudo=self.sudo)
        self._systemctl("daemon-reload")
        self._systemctl("reset-failed", "--", self.name, check=False)

    # -- life

    def start(self) -> None:
        self._systemctl("reset-failed", "--", self.name, check=False)
        self._systemctl("start", "--", self.name, timeout_s=START_S)

    def stop(self, timeout_s: float) -> StopOutcome:
        return self._stop(timeout_s, None)

    def restart(self, timeout_s: float, *, port: int | None = None) -> Cursor:
        self._stop(timeout_s, port)
        cursor = self.cursor()
        self.start()
        return cursor

    def _stop(self, timeout_s: float, port: int | None) -> StopOutcome:
        before = self.state()
        facts = {"cgroup": before.cgroup, "pid": before.main_pid}  # no process can leave its control group
        pids = list_processes(self.host, facts, sudo=self.sudo)
        if before.exists:
            self._systemctl("stop", "--no-block", "--", self.name)
        outcome = await_gone(
            self.host, self.name, facts, pids, timeout_s=timeout_s, port=port, sudo=self.sudo
        )
        self._settle()
        return outcome

    def _settle(self) -> None:
        """Wait until the manager calls it stopped: a start before that would join the stop job."""
        waited, state = 0.0, self.state()
        while state.active not in ("inactive", "failed", "unknown"):
            if waited >= SETTLE_S:
                raise ServiceError(
                    f"systemd calls {self.name} {state.active} ({state.sub}) though its processes are gone",
                    context={"host": self.host.name, "unit": self.name},
                    hint=f"look at it on the host: {self._show_command('status')}",
                )
            self._sleep(0.25)
            waited += 0.25
            state = self.state()

    def state(self) -> ServiceState:
        result = self.host.run(
            argv.show_argv(self.name, user=self.user),
            sudo=self.sudo,
            env={**self._env(), "TZ": "UTC", "LC_ALL": "C"},
            check=False,
        )
        if not result.ok:
            raise self._missing(result)
        return argv.parse_show(self.name, result.text)

    # -- the log

    def cursor(self) -> Cursor:
        result = self.host.run(argv.last_cursor_argv(), sudo=self.sudo, check=False)
        for line in result.stdout.splitlines():
            entry = journal_entry.parse_entry(line)
            if entry is not None:
                return Cursor("journal:" + journal_entry.field(entry, "__CURSOR"))
        return Cursor("journal:")

    def lines_since(
        self,
        cursor: Cursor,
        *,
        invocation: str | None = None,
        match: Sequence[str] = (),
        limit: int = 2000,
        tail: int = 40,
    ) -> LogSlice:
        params: dict[str, object] = {
            "unit": self.name,
            "user": self.user,
            "uid": self.account.uid,
            "cursor": self._journal_cursor(cursor),
            "invocation": invocation,
            "match": list(match),
            "limit": limit,
            "tail": tail,
            "timeout_s": READ_S,
            "full": self.reads_all,
            "journalctl": ["journalctl"],
        }
        raw = self.host.script(source(*JOURNAL), params, timeout_s=READ_S * 3, sudo=self.sudo)
        return as_log_slice(raw, f"journal of {self.name} on {self.host.name}, {cursor.words}")

    def follow(
        self,
        on_line: Callable[[LogLine], bool | None],
        *,
        cursor: Cursor | None = None,
        history: int = 20,
        timeout_s: float | None = None,
    ) -> None:
        start = self._journal_cursor(cursor) if cursor else None
        command = argv.follow_argv(
            self.name,
            user=self.user,
            uid=self.account.uid,
            cursor=start,
            history=history,
        )

        def take(data: bytes) -> bool | None:
            line = journal_line(data, self.name, self.user, after=start)
            return None if line is None else on_line(line)

        self.host.stream(command, take, timeout_s=timeout_s, sudo=self.sudo)

    # -- helpers

    @property
    def account(self) -> Account:
        """The login user on the host; read once."""
        if self._account is None:
            self._account = read_account(self.host)
        return self._account

    @property
    def reads_all(self) -> bool:
        """Whether specctl reads the whole journal of the host, not only this unit's lines."""
        return self.sudo or self.account.uid == 0

    def _journal_cursor(self, cursor: Cursor) -> str:
        kind, _, value = cursor.value.partition(":")
        if kind not in ("journal", ""):
            raise ServiceError(
                f"{cursor.value!r} is no place in a journal",
                code="cursor",
                context={"host": self.host.name, "unit": self.name},
                hint="the supervisor was changed since the last restart; restart the server with specctl",
            )
        return value

    def _env(self) -> Mapping[str, str]:
        return {"XDG_RUNTIME_DIR": f"/run/user/{self.account.uid}"} if self.user else {}

    def _systemctl(self, *words: str, timeout_s: float | None = None, check: bool = True) -> Result:
        command = argv.systemctl(*words, user=self.user)
        try:
            return self.host.run(
                command, sudo=self.sudo, env=self._env() or None, timeout_s=timeout_s, check=check
            )
        except CommandFailed as exc:
            raise ServiceError(
                f"{' '.join(words[:1])} of {self.name} was refused by systemd",
                context={"unit": self.name, **exc.context},
                hint=exc.hint or f"look at it on the host: {self._show_command('status')}",
            ) from exc

    def _show_command(self, verb: str) -> str:
        return f"systemctl {'--user ' if self.user else ''}{verb} {self.name}"

    def _enable_linger(self) -> None:
        result = self.host.run(["loginctl", "enable-linger", self.account.name], check=False)
        if not result.ok:
            raise ServiceError(
                f"units of {self.account.name} would stop at logout: lingering is off and could not be set",
                code="linger",
                context={"host": self.host.name, "output": result.tail},
                hint=f"as root on the host: loginctl enable-linger {self.account.name}",
            )

    def _missing(self, result: Result) -> SupervisorMissing:
        what = "the user manager" if self.user else "systemd"
        return SupervisorMissing(
            f"{what} does not answer on {self.host.name}",
            context={"host": self.host.name, "command": " ".join(result.argv), "output": result.tail},
            hint="choose another `supervisor:` for this host (systemd, systemd-user or supervisor)",
        )
