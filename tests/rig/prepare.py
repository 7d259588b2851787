"""Makes the rig: a virtual environment from the base's CPU lock, the published SGLang and the built one.

Everything lies below `.rig/` and is made again only when what it comes from has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import environment

BASE = "0.5.9"
PYTHON = "3.11"  # what the lock with a CPU build of torch is made for
LOCKS = environment.ROOT / "specctl" / "base" / "locks"
# in order: torch's CPU build from an index that has it; the usual build, which also runs without a GPU
TARGETS = ("cpu", "cpu-plain")
# what the CPU locks leave out comes from the full one: for structured output,
GRAMMAR = ("xgrammar", "ninja")
# and what sglang.bench_serving imports, in a folder of its own, because only the tests of `tune` need it
BENCH = (
    *("datasets", "dill", "fsspec", "multiprocess", "pandas", "pyarrow", "python-dateutil", "six", "tzdata"),
    "xxhash",
)

Say = Callable[[str], None]


class CannotPrepare(Exception):
    """A part of the rig could not be made; the text says which and why."""


def uv_environment(env: Mapping[str, str]) -> dict[str, str]:
    """uv reads folders of wheels from UV_FIND_LINKS; pip's name for it counts where uv's is not set."""
    out = dict(env)
    if "PIP_FIND_LINKS" in env and "UV_FIND_LINKS" not in env:
        out["UV_FIND_LINKS"] = ",".join(env["PIP_FIND_LINKS"].split())
    return out


def venv_argv(uv: str, folder: Path, python: str) -> list[str]:
    return [uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", python, str(folder)]


def install_argv(uv: str, python: Path, lock: Path, torch_index: str | None) -> list[str]:
    """Install exactly what the lock names. `torch_index`: a package index that has torch's CPU builds."""
    argv = [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(lock)]
    if torch_index:
        argv += ["--index", torch_index, "--index-strategy", "unsafe-best-match"]
    return argv


def pins_of(lock: str, names: Sequence[str]) -> str:
    """The entries of some packages, hashes included, out of a lock's text.

    A package that is pinned once for each of several Pythons keeps all of its entries.

    Raises:
        CannotPrepare: the lock has no such package.
    """
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    found = [entry for entry in entries if entry.split("==")[0] in names]
    if {entry.split("==")[0] for entry in found} != set(names):
        raise CannotPrepare(f"the lock does not name each of {', '.join(names)}")
    return "".join(found)


def _run(argv: Sequence[str], what: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=environment.ROOT)
    if done.returncode:
        end = "\n".join((done.stderr or done.stdout).rstrip().splitlines()[-15:])
        raise CannotPrepare(f"{what} failed (status {done.returncode}): {' '.join(argv)}\n{end}")
    return done.stdout


def _stamp(path: Path, content: str) -> bool:
    """Whether `path` already says `content`; the caller writes it when the work is done."""
    return path.exists() and path.read_text() == content


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def make_venv(say: Say) -> None:
    """`.rig/venv`, from the first lock that can be installed here."""
    folder, env = environment.HOME / "venv", uv_environment(os.environ)
    stamp = folder / "made-from"
    texts = {target: (LOCKS / f"{BASE}-{target}.txt").read_text() for target in TARGETS}
    grammar = pins_of((LOCKS / f"{BASE}-cuda.txt").read_text(), GRAMMAR)
    wanted = {target: hashlib.sha256((text + grammar).encode()).hexdigest() for target, text in texts.items()}
    if any(_stamp(stamp, sha) for sha in wanted.values()):
        return
    failures = []
    for target in TARGETS:
        say(f"rig: installing what SGLang {BASE} needs on a CPU (lock {target}) into {folder}")
        try:
            python = PYTHON if target == "cpu" else sys.executable
            _run(venv_argv(_uv(), folder, python), "creating the environment", env)
            lock = LOCKS / f"{BASE}-{target}.txt"
            index = os.environ.get("SPECCTL_TORCH_INDEX")
            _run(install_argv(_uv(), folder / "bin" / "python", lock, index), "installing", env)
            more = folder / "grammar.txt"
            more.write_text(grammar)
            argv = install_argv(_uv(), folder / "bin" / "python", more, None)
            _run([*argv, "--no-deps"], "installing", env)
        except CannotPrepare as exc:
            failures.append(str(exc))
            continue
        stamp.write_text(wanted[target])
        return
    raise CannotPrepare("\n\n".join(failures))


def make_bench(say: Say) -> Path:
    """`.rig/bench`: a folder for PYTHONPATH with what SGLang's own load generator imports; 200 MB.

    Raises:
        CannotPrepare: with the command that failed and the end of its output.
    """
    folder, env = environment.bench(), uv_environment(os.environ)
    pins = pins_of((LOCKS / f"{BASE}-cuda.txt").read_text(), BENCH)
    sha = hashlib.sha256(pins.encode()).hexdigest()
    if _stamp(folder / "made-from", sha):
        return folder
    say(f"rig: installing what sglang.bench_serving imports into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lock = folder / "bench.txt"
    lock.write_text(pins)
    argv = install_argv(_uv(), environment.python(), lock, None)
    _run([*argv, "--no-deps", "--target", str(folder)], "installing", env)
    (folder / "made-from").write_text(sha)
    return folder


def _unpack(wheel: Path, folder: Path) -> None:
    """The wheel's files below `folder`, unless they are there already."""
    sha = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if _stamp(folder / "made-from", sha):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (folder / "made-from").write_text(sha)


def _specctl(*arguments: str) -> dict[str, object]:
    out = _run([sys.executable, "-m", "specctl", *arguments, "--json"], f"specctl {arguments[0]}")
    loaded = json.loads(out)
    assert isinstance(loaded, dict)
    return loaded


def make_base(say: Say) -> None:
    """`.rig/base`: the published wheel, unpacked."""
    say(f"rig: the published SGLang {BASE}")
    _unpack(Path(str(_specctl("base", "fetch", BASE)["wheel"])), environment.HOME / "base")


def make_dist(say: Say) -> Path:
    """`.rig/dist`: what `specctl build` makes of it, unpacked; the distribution itself is in `.rig/build`."""
    say("rig: the distribution that `specctl build` makes of it")
    folder = environment.HOME / "build"
    _specctl("build", "--base", BASE, "--output", str(folder), "--no-import")
    (wheel,) = folder.glob("*.whl")
    _unpack(wheel, environment.HOME / "dist")
    return folder


def prepare(say: Say = print) -> None:
    """Make what is missing or out of date.

    Raises:
        CannotPrepare: with the command that failed and the end of its output.
    """
    environment.HOME.mkdir(parents=True, exist_ok=True)
    make_venv(say)
    make_bench(say)
    make_base(say)
    make_dist(say)
