"""Opening the chain of ssh connections to a host: every wait bounded, every hop's key checked."""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import paramiko
from fabric import Config, Connection
from paramiko.auth_strategy import AuthFailure

from specctl.host.auth import Keys, offered
from specctl.host.errors import AuthRefused, HostKeyRefused, Unreachable
from specctl.host.host_keys import KeyCheck
from specctl.host.ssh_config import Hop

# paramiko prints tracebacks of its threads when nobody listens; what matters of them reaches us as errors
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# told what takes long; the command line shows it, see specctl.cli.waiting
log = logging.getLogger("specctl.host")
log.addHandler(logging.NullHandler())

PATIENCE_S = 3.0  # after which a connection that is still being opened is spoken of
_KEEPALIVE_S = 15  # seconds between packets on an idle connection, for firewalls that forget


class Chain:
    """An open connection to a host, with the connections to its jump hosts that carry it."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = tuple(connections)

    @property
    def transport(self) -> paramiko.Transport:
        transport: paramiko.Transport = self._connections[-1].transport
        return transport

    @property
    def alive(self) -> bool:
        """False once a link of the chain is known to be gone."""
        return all(c.transport is not None and c.transport.is_active() for c in self._connections)

    def close(self) -> None:
        """Close all of it, the host's own connection first."""
        close(self._connections)


def close(connections: Sequence[Connection]) -> None:
    """Close connections without a word, last one first."""
    for connection in reversed(connections):
        with contextlib.suppress(Exception):  # a dead link may raise anything here, and nobody needs it
            connection.client.close()


def open_chain(host: str, hops: Sequence[Hop], timeout_s: float) -> Chain:
    """Connect hop by hop.

    Args:
        host: the host's name in the inventory, for errors.
        timeout_s: seconds for each of: connecting, the greeting, logging in, passing on to the next hop; and
            how long sent bytes may stay unacknowledged before the link counts as lost.

    Raises:
        HostKeyRefused: a hop's key is unknown, changed or revoked.
        AuthRefused: a hop takes none of the keys.
        Unreachable: anything else on the way.
    """
    opened: list[Connection] = []
    try:
        for hop in hops:
            opened.append(_connection(host, hop, opened[-1] if opened else None, timeout_s))
            with _spoken_of(host, hop, timeout_s):
                _open(host, hop, opened[-1], opened[:-1])
            if len(opened) == 1:
                _watch(opened[0].transport.sock, timeout_s)
            opened[-1].transport.set_keepalive(_KEEPALIVE_S)
    except BaseException:
        close(opened)
        raise
    return Chain(opened)


def _connection(host: str, hop: Hop, gateway: Connection | None, timeout_s: float) -> Connection:
    keys = KeyCheck(host, hop)
    kwargs: dict[str, Any] = {
        # a little earlier than the whole, which would end without saying what was missing
        "banner_timeout": timeout_s * 0.8,
        "auth_timeout": timeout_s,
        "channel_timeout": timeout_s,
        "auth_strategy": Keys(hop),
        "transport_factory": keys.transport,
    }
    if hop.proxy_command and gateway is None:
        kwargs["sock"] = paramiko.ProxyCommand(hop.proxy_command)
    connection = Connection(
        hop.address,
        user=hop.user,
        port=hop.port,
        gateway=gateway if gateway is not None else False,
        # the ssh configuration is resolved already, with what fabric leaves out of it
        config=Config(ssh_config=paramiko.SSHConfig(), lazy=True),
        connect_timeout=max(1, math.ceil(timeout_s)),
        connect_kwargs=kwargs,
    )
    connection.client.set_missing_host_key_policy(keys)
    return connection


@contextlib.contextmanager
def _spoken_of(host: str, hop: Hop, timeout_s: float) -> Iterator[None]:
    """Say that a host keeps us waiting: one that drops packets would cost its timeouts in silence."""
    waited = f"no answer for {PATIENCE_S:g} s, each step may take {timeout_s:g} s"
    words = (f"{host}: still connecting to {hop.shown} ({waited})",)
    timer = threading.Timer(PATIENCE_S, log.warning, ("%s", *words), {"extra": {"host": host}})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _open(host: str, hop: Hop, connection: Connection, before: Sequence[Connection]) -> None:
    via = " -> ".join(f"{c.user}@{c.host}:{c.port}" for c in before)
    context = {"host": host, "hop": hop.shown, **({"through": via} if via else {})}
    try:
        connection.open()
    except (HostKeyRefused, AuthRefused):
        raise
    except AuthFailure as exc:
        raise _auth_refused(host, hop, connection, exc, context) from exc
    except (OSError, EOFError, paramiko.SSHException) as exc:
        reason = _reason(exc)
        raise Unreachable(
            f"{host} cannot be reached: {hop.shown} {reason}",
            context={**context, "cause": _cause(exc)},
            hint=_hint(exc, hop),
        ) from exc


def _auth_refused(
    host: str, hop: Hop, connection: Connection, exc: AuthFailure, context: dict[str, str]
) -> Unreachable:
    keys = connection.connect_kwargs["auth_strategy"]
    refused = [f"{offered(tried.source)}: {tried.result}" for tried in exc.result]
    notes = [*keys.notes, *refused]
    if refused and all(isinstance(tried.result, (EOFError, OSError)) for tried in exc.result):
        return Unreachable(
            f"{host} cannot be reached: {hop.shown} hung up while logging in",
            context=context,
            hint="its sshd may be taking no more logins at the moment (MaxStartups); its own log says why",
        )
    many = len(refused) > 3
    return AuthRefused(
        f"{hop.shown} refused to let {hop.user} in",
        context={**context, "keys": "\n".join(notes) or "no key was found to offer"},
        hint="servers stop listening after a few keys: name the right one (identity_file) and set "
        "IdentitiesOnly yes in the ssh configuration"
        if many
        else "no key could be offered: mend what is said of them above"
        if keys.notes and not refused
        else "is the public key in authorized_keys there, and is it the right user? `ssh -v` shows more",
    )


def _watch(sock: Any, timeout_s: float) -> None:
    """Let the kernel notice a lost link, also while a command says nothing."""
    if not isinstance(sock, socket.socket):
        return  # a ProxyCommand's pipe
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": 5,
        "TCP_KEEPINTVL": 2,
        "TCP_KEEPCNT": 5,
        "TCP_USER_TIMEOUT": round(timeout_s * 1000),
    }
    for option, value in wanted.items():
        if hasattr(socket, option):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _reason(exc: BaseException) -> str:
    """What happened, in words that fit behind the hop's name."""
    if isinstance(exc, socket.gaierror):
        return "is a name that does not resolve"
    if isinstance(exc, paramiko.ChannelException):
        refused = (
            "does not let us through (AllowTcpForwarding?)" if exc.code == 1 else "does not answer there"
        )
        return f"is behind a jump host that {refused}"
    if isinstance(exc, paramiko.ssh_exception.NoValidConnectionsError):
        return "refuses the connection"
    if isinstance(exc, ConnectionRefusedError):
        return "refuses the connection"
    if isinstance(exc, TimeoutError):
        return "does not answer"
    if "banner" in str(exc):
        return "takes the connection but sends no ssh greeting"
    if "No existing session" in str(exc):  # what paramiko says when its time for the key exchange is over
        return "stopped answering while keys were exchanged"
    return "hung up" if isinstance(exc, EOFError) else "failed"


def _hint(exc: BaseException, hop: Hop) -> str:
    """Where to look first."""
    if isinstance(exc, socket.gaierror):
        return "look at `address` in the inventory, or at the name in DNS and /etc/hosts"
    if isinstance(exc, (paramiko.ssh_exception.NoValidConnectionsError, ConnectionRefusedError)):
        return f"does sshd run there, and is {hop.port} its port (`ssh: port`)?"
    if isinstance(exc, TimeoutError):
        return f"is the host up, and does no firewall stop port {hop.port}?"
    return f"`ssh -v -p {hop.port} {hop.user}@{hop.address}` shows more"


def _cause(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}".rstrip(": ")
