"""A real OpenSSH server on 127.0.0.1: own port, host key, login key and configuration; no root needed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/sbin")
READY_S = 20.0
INSTALL = "tests/packages.sh sshd"


class NoSshd(Exception):
    """There is no OpenSSH server on this machine, or it does not start; the text says what to do."""


@dataclass(frozen=True)
class SshHost:
    """How to log in."""

    port: int
    user: str
    key: Path
    known_hosts: Path
    pid: int


def find_sshd() -> str | None:
    """The program's whole path: sshd insists on being started by it."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
    return shutil.which("sshd", path=path)


def render_config(folder: Path, port: int, *, path: str, pam: bool) -> str:
    """sshd's whole configuration. `path`: the PATH that commands get; sshd's own default knows few places."""
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f'HostKey "{folder}/host_key"',
        f'AuthorizedKeysFile "{folder}/login_key.pub"',
        f'PidFile "{folder}/sshd.pid"',
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "PermitRootLogin prohibit-password",
        f"UsePAM {'yes' if pam else 'no'}",
        "StrictModes no",  # temporary folders belong to all
        "Subsystem sftp internal-sftp",
        f'SetEnv "PATH={path}"',
        "MaxSessions 64",
        "PrintMotd no",
    ]
    return "\n".join(lines) + "\n"


def locked(shadow: str, user: str) -> bool:
    """Whether this account's password is locked: without PAM, sshd lets nobody in to such an account."""
    for line in shadow.splitlines():
        name, _, rest = line.partition(":")
        if name == user:
            return rest.startswith("!")
    return False


def _needs_pam(user: str) -> bool:
    with contextlib.suppress(OSError):
        return locked(Path("/etc/shadow").read_text(), user)
    return False


def _keygen(path: Path) -> str:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "specctl-demo", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path.with_suffix(".pub").read_text()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _greets(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        return s.recv(4) == b"SSH-"
    return False


@contextlib.contextmanager
def ssh_host(folder: Path) -> Iterator[SshHost]:
    """Start it in `folder`, end it and its sessions afterwards.

    Raises:
        NoSshd: with what to install, or with the end of sshd's own words.
    """
    program = find_sshd()
    if program is None or shutil.which("ssh-keygen") is None:
        raise NoSshd(
            "this machine has no OpenSSH server: install the package openssh-server (sshd and ssh-keygen)"
        )
    folder.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where a privileged sshd locks its children in
    public, user, port = _keygen(folder / "host_key"), pwd.getpwuid(os.getuid()).pw_name, _free_port()
    _keygen(folder / "login_key")
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{port} {' '.join(public.split()[:2])}\n")
    config = folder / "sshd_config"
    config.write_text(render_config(folder, port, path=os.environ["PATH"], pam=_needs_pam(user)))
    log = (folder / "sshd.log").open("wb")
    process = subprocess.Popen(
        [program, "-D", "-e", "-f", str(config)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + READY_S
        while not _greets(port):
            if process.poll() is not None or time.monotonic() > end:
                said = (folder / "sshd.log").read_text().strip()[-1000:]
                raise NoSshd(f"{program} does not start (status {process.poll()}): {said}")
            time.sleep(0.05)
        yield SshHost(port, user, folder / "login_key", known_hosts, process.pid)
    finally:
        log.close()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
