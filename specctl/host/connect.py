"""From a host of the inventory to an object that speaks to it. Nothing is connected before the first call."""

from __future__ import annotations

from specctl.config.model import HostConfig
from specctl.host.local import LocalHost
from specctl.host.protocol import Host
from specctl.host.ssh import SshHost


def connect(config: HostConfig) -> Host:
    """The host by ssh, or this machine itself where the inventory says `connection: local`.

    Raises:
        UsageError: the ssh configuration cannot be used.
    """
    if config.connection == "local":
        return LocalHost(config.name, command_timeout_s=config.ssh.command_timeout_s, python=config.python)
    return SshHost(config.name, config.ssh, python=config.python)
