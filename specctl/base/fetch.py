"""From a base to its wheel on this machine: wheelhouse, cache, or the user's own package index."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

from specctl.base.cache import Cache
from specctl.base.errors import BadWheel, FetchFailed, HashMismatch
from specctl.base.model import Base, WheelSource
from specctl.base.process import Run, run, untrusted
from specctl.base.source import build_source
from specctl.base.wheel import check_built, check_published

Say = Callable[[str], None]


def silent(_text: str) -> None:
    """A `Say` for callers that show nothing."""


def pip_download_argv(python: str, version: str, file: str, folder: Path) -> list[str]:
    """pip, because it gives the published file itself and reads the user's own index configuration.

    Args:
        file: name of the wanted wheel; where it is for one CPython or platform, pip is told which.
    """
    argv = [
        python,
        *("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
        *("--dest", str(folder)),
    ]
    tags = sorted(parse_wheel_filename(file)[3], key=str)
    if tags[0].interpreter.startswith("cp"):
        argv += ["--implementation", "cp", "--python-version", tags[0].interpreter.removeprefix("cp")]
        argv += ["--abi", tags[0].abi]
    if tags[0].platform != "any":
        for platform in sorted({tag.platform for tag in tags}):
            argv += ["--platform", platform]
    return [*argv, f"sglang=={version}"]


def pip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What pip needs on top: no questions, few retries, and uv's index where only uv is configured."""
    extra = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if "PIP_RETRIES" not in env:
        extra["PIP_RETRIES"] = "2"
    index = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")
    if index and "PIP_INDEX_URL" not in env:
        extra["PIP_INDEX_URL"] = index
    return extra


def fetch(
    base: Base,
    cache: Cache,
    *,
    wheelhouse: Path | None = None,
    say: Say = silent,
    runner: Run = run,
) -> Path:
    """The base's wheel, checked against its pin.

    Args:
        wheelhouse: take the wheel from this folder and ask no network.
        say: is told what takes time.
        runner: runs pip, git and uv.

    Returns:
        Path of the wheel, in the wheelhouse or in the cache.

    Raises:
        FetchFailed: it is nowhere, or the network or build failed.
        HashMismatch, BadWheel, AlreadyPatched: it is not the pinned wheel.
        WriteFailed: the disk refused.
    """
    if not isinstance(base.source, WheelSource):
        return _from_source(base, cache, say, runner)
    if wheelhouse is not None:
        return _from_wheelhouse(base, base.source, wheelhouse)
    cached = cache.find(base.sha256)
    if cached is not None:
        try:
            check_published(cached, base.source, base.version)
        except (HashMismatch, BadWheel):
            say(f"the cached wheel of {base.name} is damaged; it is fetched again")
            cache.drop(base.sha256)
        else:
            return cached
    say(f"fetching {base.source.file} ({base.source.size / 1e6:.1f} MB)")
    with cache.workspace() as folder:
        done = runner(
            pip_download_argv(sys.executable, base.version, base.source.file, folder),
            env=pip_environment(os.environ),
        )
        found = sorted(folder.glob("*.whl"))
        if done.exit_code or not found:
            raise _download_failed(base, done.tail)
        check_published(found[0], base.source, base.version)
        return cache.keep(found[0], base.sha256)


def _from_wheelhouse(base: Base, source: WheelSource, folder: Path) -> Path:
    path = folder / source.file
    if not path.is_file():
        others = sorted(p.name for p in folder.glob("sglang-*.whl")) if folder.is_dir() else []
        raise FetchFailed(
            f"the wheelhouse has no {source.file}",
            context={"folder": str(folder), "sglang wheels there": ", ".join(others) or "none"},
            hint="put the file there, or leave --wheelhouse out to fetch it",
        )
    check_published(path, source, base.version)
    return path


def _from_source(base: Base, cache: Cache, say: Say, runner: Run) -> Path:
    cached = cache.find(base.sha256)
    if cached is not None:
        try:
            check_built(cached)
        except BadWheel:
            say(f"the cached wheel of {base.name} is damaged; it is built again")
            cache.drop(base.sha256)
        else:
            return cached
    with cache.workspace() as folder:
        wheel = build_source(base, folder, say=say, runner=runner)
        check_built(wheel)
        return cache.keep(wheel, base.sha256)


def _download_failed(base: Base, tail: str) -> FetchFailed:
    lowered = tail.lower()
    if "no module named pip" in lowered:
        cause, hint = "this Python has no pip", "install pip beside specctl"
    elif "no space left" in lowered:
        cause, hint = "no space left on the device", "free some space"
    elif untrusted(tail):
        cause = "the certificate of the package index, or of a proxy before it, is not trusted here"
        hint = "set PIP_CERT=FILE to the CA's certificate, or use --wheelhouse DIR"
    elif "no matching distribution" in lowered and not re.search("connection|resolve|timed out", lowered):
        cause = "the package index has no such wheel"
        if "from versions: none" in lowered:  # pip says the same of an index that it could not read
            cause = "the package index shows no sglang at all, or cannot be reached"
        hint = "check the network and the index that pip is configured for, or use --wheelhouse DIR"
    else:
        cause, hint = "the package index cannot be reached", "without a network: --wheelhouse DIR"
    return FetchFailed(
        f"SGLang {base.version} cannot be fetched: {cause}",
        context={"pip": tail or "said nothing"},
        hint=hint,
    )
