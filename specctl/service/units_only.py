"""A server whose unit root set up once: specctl writes its launcher, and sudo is for systemctl alone."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from specctl.host.errors import CommandFailed
from specctl.host.protocol import Host, Result
from specctl.service import granted
from specctl.service.errors import NotSetUp, ServiceError
from specctl.service.onhost import source
from specctl.service.protocol import Service, Unit, UnitFile
from specctl.service.supervisor_conf import render_launcher
from specctl.service.systemd import SystemdService
from specctl.service.systemd_argv import systemctl

# what systemd tells everyone, without root
_ASKS = ("show", "is-active", "is-enabled")


class UnitsOnlyService(SystemdService):
    """One unit of the system manager, for `sudo: units`. The login user owns the root and is the server.

    Args:
        host: where it lives.
        name: the unit's name without suffix.
        folder: the server's own folder.
        root: specctl's root on the host.
        login: the user whom the unit files name.
        sleep: waits, in seconds.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        folder: str,
        root: str,
        login: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(host, name, user=False, sudo=False, sleep=sleep)
        self.folder, self.root, self.login = folder, root, login

    @property
    def reads_all(self) -> bool:
        return True  # `check` has seen it

    # -- the launcher is the only file that changes

    def files(self, unit: Unit) -> tuple[UnitFile, ...]:
        return (UnitFile(granted.launcher_path(unit), render_launcher(unit).encode(), 0o755),)

    def install(self, unit: Unit) -> bool:
        self.check(unit)
        if self.installed(unit):
            return False
        for file in self.files(unit):
            self.host.write(file.data, file.path, mode=file.mode)
        return True

    def uninstall(self) -> None:
        """Stop it and remove the launcher: without it the unit starts nothing. The unit itself is root's."""
        self.stop(30.0)
        self.host.run(["rm", "-f", "--", f"{self.folder}/launch.sh"])
        self._systemctl("reset-failed", "--", self.name, check=False)

    def check(self, unit: Unit) -> None:
        """Look whether root has set up what this unit needs. Reads only.

        Raises:
            NotSetUp: a unit file, a sudo rule or the right to read the journal is missing.
        """
        wanted = (granted.fixed_unit(unit), granted.undo_unit(self.root, self.login))
        commands = (*granted.commands_of(self.name), granted.undo_command())
        missing = missing_of(self.host, wanted, commands)
        if missing:
            raise NotSetUp(
                f"root has not set up {self.host.name} for {self.name}",
                context={"host": self.host.name, "unit": self.name, "missing": "\n".join(missing)},
                hint=f"run there as root what this prints: specctl sudoers --setup --hosts {self.host.name}",
            )

    def _systemctl(self, *words: str, timeout_s: float | None = None, check: bool = True) -> Result:
        if words[0] in _ASKS:
            return super()._systemctl(*words, timeout_s=timeout_s, check=check)
        command = (*granted.SUDO, *systemctl(*words, user=False))
        result = self.host.run(command, timeout_s=timeout_s, check=False)
        if result.ok or not check:
            return result
        raise ServiceError(
            f"{words[0]} of {self.name} was refused by sudo or systemd on {self.host.name}",
            context={"host": self.host.name, "unit": self.name, "output": result.tail or "(none)"},
            hint=f"specctl doctor --hosts {self.host.name} tells whether sudo allows it",
        )


def check_set_up(service: Service, unit: Unit) -> None:
    """See that root did its part, where a service depends on it: before a plan is made, not in its middle.

    Raises:
        NotSetUp: it did not.
    """
    if isinstance(service, UnitsOnlyService):
        service.check(unit)


def missing_of(host: Host, files: Iterable[UnitFile], commands: Iterable[granted.Argv]) -> list[str]:
    """What root has still to set up on a host, in words; empty when nothing is missing. Reads only.

    Raises:
        CommandFailed: the host gave no answer that says so.
    """
    params = {
        "files": {file.path: hashlib.sha256(file.data).hexdigest() for file in files},
        "commands": [list(argv) for argv in commands],
    }
    raw: Any = host.script(source("granted"), params)
    if not isinstance(raw, Mapping) or not {"files", "refused", "journal"} <= set(raw):
        raise CommandFailed(f"{host.name} did not say what sudo allows", context={"host": host.name})
    missing = [f"{path} {what}" for path, what in raw["files"].items()]
    missing += [f"sudo does not allow: {' '.join(argv)}" for argv in raw["refused"]]
    if not raw["journal"]:
        missing.append("the system's journal cannot be read: the login user is not in group systemd-journal")
    return missing
