"""Secret values on their way to a host: never in a plan or a journal, only a salted digest of them is.

The digest tells whether the values changed. The salt is the host's own, so that the same secret on two hosts
does not look the same.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable

from specctl.config.model import SecretRef, ServerConfig
from specctl.config.secrets import Secret, secret_file_bytes
from specctl.release.layout import ServerPaths
from specctl.service.envfile import render_env_file

Reader = Callable[[SecretRef], Secret]


def secret_digest(server: ServerConfig, salt: str | None, read: Reader) -> str | None:
    """16 hex over all secret values of a server; None when it has none. Without a salt yet: "new".

    Raises:
        SecretError: a value cannot be read; also before a host's first deploy, so that nothing is begun.
    """
    if not server.secrets and not server.secret_args:
        return None
    values = {
        "env": {name: read(ref).reveal() for name, ref in sorted(server.secrets.items())},
        "args": {name: read(ref).reveal() for name, ref in sorted(server.secret_args.items())},
        "file": server.secret_file,
    }
    if salt is None:
        return "new"
    return hmac.new(salt.encode(), json.dumps(values, sort_keys=True).encode(), hashlib.sha256).hexdigest()[
        :16
    ]


def secret_files(server: ServerConfig, paths: ServerPaths) -> tuple[str, ...]:
    """Where the secrets of a server lie on its host."""
    files = (paths.secrets,) if server.secrets else ()
    return (*files, server.secret_file) if server.secret_args and server.secret_file else files


def env_file(server: ServerConfig, read: Reader) -> bytes:
    """The file with the secret environment.

    Raises:
        UsageError: a value that such a file cannot hold.
    """
    return render_env_file({name: read(ref).reveal() for name, ref in server.secrets.items()})


def args_file(server: ServerConfig, read: Reader) -> bytes:
    """The file that SGLang reads with --config: the arguments whose values are secret."""
    return secret_file_bytes(server, {name: read(ref) for name, ref in server.secret_args.items()})
