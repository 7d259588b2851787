"""Bases from source: a git ref whose python/ folder is built, or a checkout on this machine."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version

from specctl.base.errors import AlreadyPatched, FetchFailed, HashMismatch, SourceError
from specctl.base.hashing import source_files, tree_sha256
from specctl.base.model import Base, GitSource, WheelSource
from specctl.base.process import Run, run, untrusted, uv_binary
from specctl.base.wheel import is_patched
from specctl.errors import UsageError

Say = Callable[[str], None]
_FIXED_TIME = "315532800"  # 1980-01-01: the earliest a zip can hold; keeps a build free of the day's date
_VERSION_LINE = re.compile(r"""^(?:__version__\s*=\s*)(?:version\s*=\s*)?['"]([^'"]+)['"]""", re.MULTILINE)
# Files in which a specctl distribution shows even where the version does not say so.
_MODULES_OF_OURS = "sglang/srt/speculative/dynamic_disable"


@dataclass(frozen=True)
class Checkout:
    """A source tree that was looked at: where the folder that holds sglang/ is, and what it says."""

    folder: Path
    version: str | None
    sha256: str


def git_clone_argv(url: str, folder: Path) -> list[str]:
    """All commits and tags, but of the files only those that are checked out later."""
    return ["git", "clone", "--quiet", "--no-checkout", "--filter=blob:none", "--", url, str(folder)]


def uv_build_argv(uv: str, python: str, folder: Path, out: Path) -> list[str]:
    """The tree's own build backend, in an environment of its own."""
    return [
        *(uv, "build", "--wheel", "--quiet", "--no-python-downloads", "--python", python),
        *("--out-dir", str(out), str(folder)),
    ]


def resolve_git(
    url: str, ref: str, subdirectory: str, workspace: Path, *, say: Say, runner: Run = run
) -> tuple[GitSource, Checkout]:
    """Clone, check out `ref`, and pin what is there.

    Args:
        url: a remote, a mirror, or a local clone.
        workspace: an empty folder for the clone.

    Raises:
        UsageError: the URL holds a password, or an argument looks like an option.
        SourceError: git cannot clone or does not know the ref, or no sglang is there.
    """
    if urlsplit(url).password is not None:
        raise UsageError(
            "the URL holds a password, which would end up in files and process lists",
            code="secret-in-url",
            hint="leave it out and give it to git's credential helper",
        )
    if ref.startswith("-") or url.startswith("-"):
        raise UsageError(f"{ref if ref.startswith('-') else url!r} is no git ref or URL")
    clone = workspace / "clone"
    say(f"cloning {url}")
    _git(
        runner,
        git_clone_argv(url, clone),
        f"git cannot clone {url}",
        "check the URL, the network and your rights",
    )
    in_clone = ("git", "-C", str(clone), "-c", "core.autocrlf=false")
    found = runner([*in_clone, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"])
    if found.exit_code:  # a branch exists in a clone only as the remote's
        found = runner(
            [*in_clone, "rev-parse", "--verify", "--quiet", f"refs/remotes/origin/{ref}^{{commit}}"]
        )
    if found.exit_code:
        raise SourceError(f"{url} has no ref {ref!r}", hint="name a tag, a branch or a full commit")
    commit = found.stdout.strip()
    _git(
        runner,
        [*in_clone, "checkout", "--quiet", "--detach", commit],
        f"git cannot check out {ref}",
        "run git by hand",
    )
    described = runner([*in_clone, "describe", "--tags", "--match", "v*", commit])
    checkout = look_at(
        clone / subdirectory, described=described.stdout.strip() if not described.exit_code else ""
    )
    return GitSource(url, ref, commit, subdirectory, checkout.sha256), checkout


def look_at(folder: Path, described: str = "") -> Checkout:
    """Find sglang/ in a checkout and pin what is there.

    Args:
        folder: a repository, its python/ folder, or any folder with sglang/ in it.
        described: what `git describe` said, e.g. v0.5.9-12-gabc; used when the tree itself says no version.

    Raises:
        SourceError: no sglang is there.
        AlreadyPatched: overlays are in it.
    """
    for candidate in (folder, folder / "python"):
        if (candidate / "sglang" / "__init__.py").is_file():
            break
    else:
        raise SourceError(
            f"there is no sglang in {folder}",
            hint="give the folder that holds sglang/, or the repository above it",
        )
    version = _own_version(candidate) or _described_version(described)
    if (candidate / _MODULES_OF_OURS).is_dir() or (version and is_patched(version)):
        raise AlreadyPatched(
            f"{candidate} is already patched: overlays are in it",
            hint=f"take them out first: specctl overlay remove {candidate}",
        )
    try:
        return Checkout(candidate, version, tree_sha256(candidate))
    except OSError as exc:
        raise SourceError(f"{exc.filename} cannot be read: {exc.strerror}") from exc


def build_source(base: Base, workspace: Path, *, say: Say, runner: Run = run) -> Path:
    """Build the wheel of a git or tree base, after checking that the source is still the pinned one.

    Raises:
        HashMismatch: the source has changed since it was added.
        SourceError: it is gone, or the build failed.
    """
    source = base.source
    if isinstance(source, WheelSource):
        raise TypeError("a published wheel is not built")
    if isinstance(source, GitSource):
        pinned, checkout = resolve_git(
            source.url, source.commit, source.subdirectory, workspace, say=say, runner=runner
        )
        where, seen = f"{source.url} at {source.commit[:12]}", pinned.sha256
    else:
        checkout = look_at(Path(source.path))
        where, seen = source.path, checkout.sha256
    if seen != source.sha256:
        raise HashMismatch(
            f"{where} is not what base {base.name} was added as",
            context={"expected": f"sha256 {source.sha256}", "seen": f"sha256 {seen}"},
            hint="add it again: specctl base add --replace ...",
        )
    return build_tree(checkout.folder, base.version, workspace, say=say, runner=runner)


def build_tree(folder: Path, version: str, workspace: Path, *, say: Say, runner: Run = run) -> Path:
    """Build a wheel from a copy of `folder`, so that nothing is left in it. Raises SourceError."""
    copy, out = workspace / "source", workspace / "out"
    for name in source_files(folder):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, copy / name, follow_symlinks=False)
    say(f"building sglang {version} from source")
    # setuptools-scm finds no git data in the copy; the version was read before.
    env = {"SETUPTOOLS_SCM_PRETEND_VERSION": version, "SOURCE_DATE_EPOCH": _FIXED_TIME}
    done = runner(uv_build_argv(uv_binary(), sys.executable, copy, out), env=env)
    wheels = sorted(out.glob("*.whl"))
    if done.exit_code or not wheels:
        raise SourceError(
            f"{folder} cannot be built",
            context={"uv build": done.tail or "made no wheel"},
            hint="build it by hand to see more: uv build --wheel",
        )
    return wheels[0]


def source_version(checkout: Checkout, given: str | None) -> str:
    """The version that a source base gets: as given, else as the tree says. Raises UsageError."""
    version = given or checkout.version
    if version is None:
        raise UsageError(f"{checkout.folder} does not say its version", hint="give it: --version 0.5.9")
    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"{version!r} is no version", hint="write it like 0.5.9 or 0.5.9.dev12") from None


def _git(runner: Run, argv: list[str], message: str, hint: str) -> None:
    try:
        done = runner(argv, env={"GIT_TERMINAL_PROMPT": "0"})
    except FileNotFoundError as exc:
        raise FetchFailed("there is no git on this machine", hint="install git") from exc
    if done.exit_code:
        if untrusted(done.tail):
            hint = "git does not trust that server, or a proxy before it: set GIT_SSL_CAINFO=FILE to the CA's"
        raise SourceError(message, context={"git": done.tail}, hint=hint)


def _own_version(folder: Path) -> str | None:
    for name in ("sglang/_version.py", "sglang/version.py"):
        try:
            found = _VERSION_LINE.search((folder / name).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found and found[1] != "0.0.0.dev0":
            return found[1]
    return None


def described_version(folder: Path, runner: Run) -> str | None:
    """The version that the git tags of a checkout say; None without git data."""
    try:
        done = runner(["git", "-C", str(folder), "describe", "--tags", "--match", "v*"])
    except OSError:
        return None
    return None if done.exit_code else _described_version(done.stdout.strip())


def _described_version(described: str) -> str | None:
    """v0.5.9 -> 0.5.9; v0.5.9-12-gabc1234 -> 0.5.9.post0.dev12+gabc1234."""
    found = re.fullmatch(r"v(\d[^-]*)(?:-(\d+)-(g[0-9a-f]+))?", described)
    if not found:
        return None
    return found[1] if not found[2] else f"{found[1]}.post0.dev{found[2]}+{found[3]}"
