"""The check of one hop's host key, in the form that paramiko asks for."""

from __future__ import annotations

import threading
from typing import Any

import paramiko

from specctl.host import known_hosts
from specctl.host.errors import HostKeyRefused
from specctl.host.known_hosts import KeyState
from specctl.host.ssh_config import Hop

_RECORDING = threading.Lock()


class KeyCheck(paramiko.MissingHostKeyPolicy):
    """Judges a host's key by the known_hosts files alone; paramiko's own tables stay empty.

    So every key comes here, several recorded keys of one kind work (a rotation), and revoked ones are seen.
    """

    def __init__(self, host: str, hop: Hop) -> None:
        self._host = host
        self._hop = hop
        self._recorded = known_hosts.lookup(hop.key_name, hop.known_hosts)

    def transport(self, sock: Any, **kwargs: Any) -> paramiko.Transport:
        """A transport that asks for the kinds of key that are on record first."""
        transport = paramiko.Transport(sock, **kwargs)
        options = transport.get_security_options()
        known = {recorded.key_type for recorded in self._recorded if not recorded.revoked}
        if "ssh-rsa" in known:
            known |= {"rsa-sha2-512", "rsa-sha2-256"}
        options.key_types = sorted(options.key_types, key=lambda kind: kind not in known)
        return transport

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Return when the key is right.

        Raises:
            HostKeyRefused: it is not.
        """
        del client, hostname
        state = known_hosts.judge(key, self._recorded)
        if state is KeyState.KNOWN:
            return
        if state is KeyState.UNKNOWN and self._hop.accept_new:
            state = self._accept(key)
            if state is KeyState.KNOWN:
                return
        raise self._unknown(key) if state is KeyState.UNKNOWN else self._wrong(key, state)

    def _accept(self, key: paramiko.PKey) -> KeyState:
        """Record a new key, unless another thread met the same host a moment ago: then its key counts."""
        with _RECORDING:
            self._recorded = known_hosts.lookup(self._hop.key_name, self._hop.known_hosts)
            state = known_hosts.judge(key, self._recorded)
            if state is not KeyState.UNKNOWN:
                return state
            known_hosts.record(self._hop.key_name, key, self._hop.known_hosts[0])
        return KeyState.KNOWN

    def _context(self, key: paramiko.PKey) -> dict[str, str]:
        seen = f"{key.get_name()} {key.fingerprint}"
        return {"host": self._host, "hop": self._hop.shown, "key seen": seen}

    def _unknown(self, key: paramiko.PKey) -> HostKeyRefused:
        hop = self._hop
        scan = f"ssh-keyscan -p {hop.port} {hop.address} >> {hop.known_hosts[0]}"
        return HostKeyRefused(
            f"the host key of {hop.shown} is not known",
            code="host-key-unknown",
            context={**self._context(key), "known_hosts": ", ".join(hop.known_hosts)},
            hint="compare the fingerprint with what the host itself says (ssh-keygen -lf), then add it: "
            f"{scan}; or set host_keys: accept-new",
        )

    def _wrong(self, key: paramiko.PKey, state: KeyState) -> HostKeyRefused:
        recorded = [f"{r.key_type} {r.fingerprint} ({r.file}:{r.line})" for r in self._recorded]
        what = "is marked as revoked" if state is KeyState.REVOKED else "has changed"
        return HostKeyRefused(
            f"the host key of {self._hop.shown} {what}",
            code=f"host-key-{state.value}",
            context={**self._context(key), "key on record": "\n".join(recorded)},
            hint="someone may be listening in. Only if the host was really set up anew: "
            f"ssh-keygen -R '{self._hop.key_name}' -f {self._recorded[0].file}",
        )
