"""`--config FILE` of a server: the file's settings become arguments in front of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath

import yaml

Read = Callable[[str], "bytes | None"]


class ConfigFileError(Exception):
    """The server would refuse its --config; the text says why."""


def expand(argv: Sequence[str], switches: Collection[str], read: Read | None) -> list[str]:
    """The command line with `--config FILE` replaced by what the file says.

    As in SGLang: only the two-word form counts, arguments on the command line win over the file.

    Args:
        switches: destinations of flags that take no value; `true` turns one on, `false` leaves it out.
        read: gives a file's bytes, None when there is none; None: files cannot be looked at from here.

    Raises:
        ConfigFileError: the file cannot be read, or is not a YAML mapping of settings.
    """
    args = list(argv)
    if "--config" not in args:
        return args
    at = args.index("--config")
    if args.count("--config") > 1:
        raise ConfigFileError("--config is given more than once")
    if at + 1 == len(args):
        raise ConfigFileError("--config needs a file")
    name = args[at + 1]
    if PurePosixPath(name).suffix.lower() not in (".yaml", ".yml"):
        raise ConfigFileError(f"--config {name} is no .yaml or .yml file")
    data = read(name) if read else None
    if data is None:
        raise ConfigFileError(f"--config {name} cannot be read")
    try:
        settings = yaml.safe_load(data) or {}
    except yaml.YAMLError as exc:
        raise ConfigFileError(f"--config {name} is not YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(settings, dict):
        raise ConfigFileError(f"--config {name} is not a mapping of settings")
    extra: list[str] = []
    for key, value in settings.items():
        extra += _arguments(str(key), value, switches)
    return [*extra, *args[:at], *args[at + 2 :]]


def _arguments(key: str, value: object, switches: Collection[str]) -> list[str]:
    flag = f"--{key}"
    if isinstance(value, bool):
        if key.replace("-", "_") in switches:
            return [flag] if value else []
        return [flag, str(value).lower()]
    if isinstance(value, list):
        return [flag, *(str(item) for item in value)] if value else []
    return [flag, str(value)]
