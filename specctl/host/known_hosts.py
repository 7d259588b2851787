"""Host keys: what the operator's known_hosts files say about one name, and what follows for the key seen."""

from __future__ import annotations

import base64
import fnmatch
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeys


class KeyState(str, Enum):
    """KNOWN: recorded for this name. CHANGED: another key is. REVOKED: marked as such. UNKNOWN: none is."""

    KNOWN = "known"
    CHANGED = "changed"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Recorded:
    """One key that a file records for the name."""

    file: str
    line: int  # counted from 1
    key_type: str
    blob: str  # base64
    revoked: bool

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it: SHA256:..."""
        try:
            return str(paramiko.PKey.from_type_string(self.key_type, base64.b64decode(self.blob)).fingerprint)
        except (paramiko.SSHException, ValueError, IndexError):
            return "(unreadable)"


def name_of(address: str, port: int) -> str:
    """The name under which known_hosts records a host: with brackets where the port is not 22."""
    return address if port == 22 else f"[{address}]:{port}"


def lookup(name: str, files: tuple[str, ...]) -> tuple[Recorded, ...]:
    """Every key that the files record for a name; files that are not there are passed over."""
    found = []
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, raw in enumerate(text.splitlines(), 1):
            words = raw.split()
            if not words or words[0].startswith("#"):
                continue
            marker = words.pop(0) if words[0].startswith("@") else ""
            if marker not in ("", "@revoked") or len(words) < 3:
                continue
            if _matches(name, words[0]):
                found.append(Recorded(file, number, words[1], words[2], revoked=marker == "@revoked"))
    return tuple(found)


def judge(key: paramiko.PKey, recorded: tuple[Recorded, ...]) -> KeyState:
    """What the recorded keys say about the key that a host showed."""
    same = [r for r in recorded if (r.key_type, r.blob) == (key.get_name(), key.get_base64())]
    if any(r.revoked for r in same):
        return KeyState.REVOKED
    if same:
        return KeyState.KNOWN
    return KeyState.CHANGED if any(not r.revoked for r in recorded) else KeyState.UNKNOWN


def record(name: str, key: paramiko.PKey, file: str) -> None:
    """Add a key at the end of a file, which is made (with its folder) where it is missing."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as handle:
        handle.seek(0, os.SEEK_END)
        broken = False
        if handle.tell():
            handle.seek(-1, os.SEEK_END)
            broken = handle.read(1) != b"\n"
        handle.write(f"{chr(10) if broken else ''}{name} {key.get_name()} {key.get_base64()}\n".encode())


def _matches(name: str, patterns: str) -> bool:
    hit = False
    for pattern in patterns.split(","):
        if pattern.startswith("|1|"):
            hit = hit or _hashed(name, pattern)
        elif pattern.startswith("!"):
            if fnmatch.fnmatchcase(name.lower(), _glob(pattern[1:])):
                return False
        else:
            hit = hit or fnmatch.fnmatchcase(name.lower(), _glob(pattern))
    return hit


def _glob(pattern: str) -> str:
    return pattern.lower().replace("[", "[[]")  # known_hosts knows * and ?, and brackets around a port


def _hashed(name: str, pattern: str) -> bool:
    try:
        return HostKeys.hash_host(name, pattern) == pattern
    except (ValueError, AssertionError, IndexError):
        return False
