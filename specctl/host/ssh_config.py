"""From an inventory's SshConfig and the operator's ssh configuration to hops: where to connect, as whom."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import paramiko

from specctl.config.model import HostKeys, SshConfig
from specctl.errors import UsageError
from specctl.host import known_hosts

_GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
_USUAL = ("~/.ssh/config", "/etc/ssh/ssh_config")  # the first value found wins
_INCLUDE_DEPTH = 16  # as OpenSSH has it


@dataclass(frozen=True)
class Hop:
    """One ssh connection of a chain; the last one is the host itself."""

    label: str  # as written in the inventory or in ProxyJump
    address: str
    port: int
    user: str
    identity_files: tuple[str, ...]  # in the order in which they are tried; empty: the usual ones
    identities_only: bool  # nothing but `identity_files` is offered, whatever the agent holds
    known_hosts: tuple[str, ...]
    key_name: str  # what known_hosts calls it
    accept_new: bool
    proxy_command: str | None = None  # only of the first hop

    @property
    def shown(self) -> str:
        """For people: user, address and port, and the label where it says something else."""
        text = f"{self.user}@{self.address}:{self.port}"
        return text if self.label == self.address else f"{self.label} ({text})"


def hops(ssh: SshConfig) -> tuple[Hop, ...]:
    """The chain of connections that leads to a host, first hop first.

    The inventory wins over the ssh configuration, which wins over the defaults. Jumps that the inventory
    names replace ProxyJump, and none of them means direct there too.

    Raises:
        UsageError: the ssh configuration cannot be read.
    """
    return _chain(ssh, load(ssh.config_file), seen=())


def load(config_file: str | None) -> paramiko.SSHConfig:
    """The user's ssh configuration and the machine's, or the one that is named, with Include lines resolved.

    Raises:
        UsageError: it cannot be read.
    """
    if config_file == "none":
        return paramiko.SSHConfig()
    if config_file is None:
        paths = [path for path in (Path(name).expanduser() for name in _USUAL) if path.exists()]
    else:
        paths = [Path(config_file).expanduser()]
    try:
        # a `Host *` in front of the second file: what the first one ended with must not go on there
        text = "\nHost *\n".join("\n".join(_with_includes(path)) for path in paths)
        return paramiko.SSHConfig.from_text(text)
    except (OSError, UnicodeDecodeError, paramiko.SSHException) as exc:
        raise UsageError(
            f"the ssh configuration {' or '.join(map(str, paths))} cannot be used: {exc}",
            code="ssh-config",
            hint="name another one (ssh: {config_file: PATH}), or `config_file: none`",
        ) from exc


def _with_includes(path: Path, depth: int = 0) -> list[str]:
    lines: list[str] = []
    home = Path("/etc/ssh") if path.is_relative_to("/etc/ssh") else Path("~/.ssh").expanduser()
    block = "Host *"  # what the lines at hand belong to; an included file must not change it
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.replace("=", " ", 1).split()
        keyword = words[0].lower() if words else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include":
            lines.append(line)
            continue
        for pattern in words[1:] if depth < _INCLUDE_DEPTH else []:
            wanted = Path(pattern.strip('"')).expanduser()
            root = wanted if wanted.is_absolute() else home / wanted
            for found in sorted(root.parent.glob(root.name)):
                lines += _with_includes(found, depth + 1)
        lines.append(block)
    return lines


def _chain(ssh: SshConfig, config: paramiko.SSHConfig, seen: tuple[str, ...]) -> tuple[Hop, ...]:
    settings = config.lookup(ssh.address)
    last = _hop(ssh, settings)
    if ssh.jumps:
        before: tuple[Hop, ...] = ()
        for jump in ssh.jumps:
            own = load(jump.config_file) if jump.config_file else config
            before += _chain(jump, own, (*seen, ssh.address)) if not before else (_alone(jump, own),)
        return (*before, last)
    if "jumps" in ssh.explicit:
        return (last,)  # `jumps: none`
    command = settings.get("proxycommand")
    via = str(settings.get("proxyjump", "none"))
    if via.lower() != "none":
        names = [name.strip() for name in via.split(",") if name.strip()]
        jumps = [_jump(name, ssh) for name in names]
        first = _hop(jumps[0], config.lookup(jumps[0].address))
        if (first.address, first.port) == (last.address, last.port) or jumps[0].address in seen:
            return (last,)  # `Host *` sends the jump host through itself
        path = _chain(jumps[0], config, (*seen, ssh.address))
        return (*path, *(_alone(jump, config) for jump in jumps[1:]), last)
    if command and str(command).lower() != "none":
        return (_hop(ssh, settings, proxy_command=str(command)),)
    return (last,)


def _alone(ssh: SshConfig, config: paramiko.SSHConfig) -> Hop:
    """A hop whose way is already given by the ones before it."""
    return _hop(ssh, config.lookup(ssh.address))


def _jump(text: str, target: SshConfig) -> SshConfig:
    """One entry of ProxyJump: [ssh://][user@]host[:port]; the rest it takes from the host behind it."""
    rest = text.removeprefix("ssh://").rstrip("/")
    user, _, rest = rest.rpartition("@")
    address, port = rest, "22"
    if rest.startswith("["):
        address, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":") or "22"
    elif rest.count(":") == 1:
        address, port = rest.split(":")
    if not port.isdigit():
        raise UsageError(f"ProxyJump names no port: {text!r}", code="ssh-config")
    return SshConfig(
        address=address,
        port=int(port),
        user=user or None,
        known_hosts=target.known_hosts,
        host_keys=target.host_keys,
        config_file=target.config_file,
    )


def _hop(ssh: SshConfig, settings: paramiko.SSHConfigDict, proxy_command: str | None = None) -> Hop:
    address = str(settings.get("hostname", ssh.address))
    own_port = "port" in ssh.explicit or ssh.port != 22
    port = ssh.port if own_port else int(str(settings.get("port", 22)))
    only = ssh.identities_only
    if only is None:
        only = str(settings.get("identitiesonly", "no")).lower() == "yes"
    configured = cast("list[str]", settings.get("identityfile") or [])
    named = [ssh.identity_file] if ssh.identity_file else [name for name in configured if name != "none"]
    files = tuple(str(Path(name).expanduser()) for name in named)
    return Hop(
        label=ssh.address,
        address=address,
        port=port,
        user=ssh.user or str(settings.get("user", getpass.getuser())),
        identity_files=files,
        identities_only=only,
        known_hosts=_known_hosts(ssh, settings),
        key_name=str(settings.get("hostkeyalias", known_hosts.name_of(address, port))),
        accept_new=ssh.host_keys is HostKeys.ACCEPT_NEW,
        proxy_command=proxy_command,
    )


def _known_hosts(ssh: SshConfig, settings: paramiko.SSHConfigDict) -> tuple[str, ...]:
    """The files to look into; a new key is recorded in the first."""
    if ssh.known_hosts:
        return (str(Path(ssh.known_hosts).expanduser()),)
    own = str(settings.get("userknownhostsfile", "~/.ssh/known_hosts")).split()
    return (*(str(Path(name.strip('"')).expanduser()) for name in own), _GLOBAL_KNOWN_HOSTS)
