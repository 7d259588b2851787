"""What a first deploy that failed leaves below a root where nothing serves, and how to remove it. Pure."""

from __future__ import annotations

import shlex

from specctl.config.model import HostConfig
from specctl.release.state import HostState
from specctl.service.supervisor_conf import SupervisorPaths

# what specctl makes below a root; the root itself may hold more than that
FOLDERS = ("releases", "servers", "cache", "bin", "wheels", "deadman", "supervisor")


def leftovers(config: HostConfig, state: HostState) -> str | None:
    """A sentence for the operator; None where something serves or there is nothing left."""
    if not state.exists or any(s.goods or s.current for s in state.servers.values()):
        return None
    root = shlex.quote(config.root)
    remove = f"cd {root} && rm -rf {' '.join(FOLDERS)}"
    what = ", ".join(sorted(state.releases)) or "folders"
    if state.supervisor:
        paths = SupervisorPaths(config.root)
        stop = (paths.python, "-m", "supervisor.supervisorctl", "-c", paths.conf, "shutdown")
        remove, what = f"{shlex.join(stop)}; {remove}", f"{what}, a running supervisor"
    if config.sudo:
        remove = f"sudo sh -c {shlex.quote(remove)}"
    return (
        f"nothing serves from {config.root}, but this first deploy left there: {what}, and a cache. "
        f"The next deploy goes on with it; to remove it, on the host: {remove}"
    )
