"""Which keys are offered to a hop, and in which order: few and right, since servers count the tries."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey, OnDiskPrivateKey

from specctl.host.ssh_config import Hop

_USUAL = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


class Keys(AuthStrategy):
    """Offers the hop's identity files first (by the agent where it holds them), then the agent's other keys.

    `notes` says, for each key that could not be offered, why; an error shows them.
    """

    def __init__(self, hop: Hop) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._hop = hop
        self.notes: list[str] = []

    def get_sources(self) -> Iterator[AuthSource]:
        """The keys, one at a time, so that a file is only opened when its turn comes."""
        held = {key.asbytes(): key for key in self._agent_keys()}
        files = self._hop.identity_files or _USUAL
        for name in files:
            path = Path(name).expanduser()
            public = _public_part(path)
            agent_key = held.pop(public, None) if public else None
            if agent_key is not None:
                yield InMemoryPrivateKey(self._hop.user, agent_key)
                continue
            key = self._load(path)
            if key is not None:
                yield OnDiskPrivateKey(self._hop.user, "python-config", path, key)
        if not self._hop.identities_only:
            for agent_key in held.values():
                yield InMemoryPrivateKey(self._hop.user, agent_key)

    def _agent_keys(self) -> tuple[paramiko.AgentKey, ...]:
        try:
            return tuple(paramiko.Agent().get_keys())
        except (paramiko.SSHException, OSError) as exc:
            self.notes.append(f"the ssh agent does not answer: {exc}")
            return ()

    def _load(self, path: Path) -> paramiko.PKey | None:
        if not path.exists():
            if self._hop.identity_files:
                self.notes.append(f"{path}: no such file")
            return None
        if path.suffix == ".pub":
            self.notes.append(f"{path}: is a public key; name the private one, {path.with_suffix('')}")
            return None
        try:
            return paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):
            self.notes.append(
                f"{path}: has a passphrase, and the ssh agent does not hold it (ssh-add {path})"
            )
        except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError, OSError) as exc:
            self.notes.append(f"{path}: {exc}")
        return None


def offered(source: AuthSource) -> str:
    """A key that was offered, for people: its file, or whose it is."""
    if isinstance(source, OnDiskPrivateKey):
        return str(source.path)
    key = getattr(source, "pkey", None)
    return f"{key.get_name()} of the ssh agent" if key is not None else type(source).__name__


def _public_part(path: Path) -> bytes | None:
    """The public key that lies beside a private one, or that the named file itself holds."""
    for candidate in (path.with_name(path.name + ".pub"), path):
        try:
            words = candidate.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if len(words) >= 2 and words[0].startswith(("ssh-", "ecdsa-", "sk-")):
            try:
                return base64.b64decode(words[1], validate=True)
            except ValueError:
                return None
    return None
