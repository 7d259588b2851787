"""Fetching a base: only the pinned bytes get in, and nothing half written stays."""

from __future__ import annotations

import errno
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from base.builders import DISK, Pip, base_for, make_wheel, refuse
from specctl.base.cache import Cache
from specctl.base.errors import AlreadyPatched, FetchFailed, HashMismatch, WriteFailed
from specctl.base.fetch import fetch, pip_download_argv, pip_environment
from specctl.errors import SpecctlError
from specctl.exits import ExitCode


def files_below(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_fetched_wheel_is_kept_under_its_hash_and_not_asked_for_again(cache: Cache, wheel: Path) -> None:
    base, pip = base_for(wheel), Pip(wheel)
    first = fetch(base, cache, runner=pip)
    assert first == cache.root / "wheels" / base.sha256 / wheel.name
    assert first.read_bytes() == wheel.read_bytes()
    assert fetch(base, cache, runner=pip) == first
    assert len(pip.calls) == 1
    assert files_below(cache.root) == [f"wheels/{base.sha256}/{wheel.name}"]


def test_pip_is_asked_for_the_published_file_alone() -> None:
    argv = pip_download_argv("/py", "0.5.9", "sglang-0.5.9-py3-none-any.whl", Path("d"))
    assert argv[:4] == ["/py", "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary"} <= set(argv)
    assert argv[-1] == "sglang==0.5.9"
    assert not {"--platform", "--python-version"} & set(argv)


def test_a_wheel_for_one_python_and_platform_is_asked_for_wherever_specctl_runs() -> None:
    argv = pip_download_argv(
        "/py", "0.5.11", "sglang-0.5.11-cp312-cp312-manylinux_2_34_x86_64.whl", Path("d")
    )
    asked = dict(pairwise(argv))
    assert (asked["--python-version"], asked["--abi"], asked["--implementation"]) == ("312", "cp312", "cp")
    assert asked["--platform"] == "manylinux_2_34_x86_64"


def test_an_index_that_only_uv_is_told_of_is_used_and_pips_own_wins() -> None:
    assert pip_environment({"UV_DEFAULT_INDEX": "file:///a"})["PIP_INDEX_URL"] == "file:///a"
    assert "PIP_INDEX_URL" not in pip_environment({"UV_INDEX_URL": "file:///a", "PIP_INDEX_URL": "file:///b"})
    assert "PIP_RETRIES" not in pip_environment({"PIP_RETRIES": "9"})


def test_a_damaged_cache_entry_is_fetched_again(cache: Cache, wheel: Path) -> None:
    base, pip, said = base_for(wheel), Pip(wheel), []
    path = fetch(base, cache, runner=pip)
    path.write_bytes(path.read_bytes()[:-100])
    assert fetch(base, cache, runner=pip, say=said.append).read_bytes() == wheel.read_bytes()
    assert "damaged" in said[0]
    assert len(pip.calls) == 2


def refused(base_wheel: Path, got: Path, cache: Cache) -> SpecctlError:
    """The error of fetching `got` where `base_wheel` is pinned; nothing may be in the cache after it."""
    with pytest.raises(SpecctlError) as caught:
        fetch(base_for(base_wheel), cache, runner=Pip(got))
    assert not cache.root.exists() or files_below(cache.root) == []
    assert caught.value.exit_code == ExitCode.FAILED
    return caught.value


def test_a_wheel_whose_hash_differs_is_refused_with_both_hashes(
    cache: Cache, wheel: Path, tmp_path: Path
) -> None:
    other = make_wheel(tmp_path / "other", files={"sglang/__init__.py": "changed = 1\n"})
    error = refused(wheel, other, cache)
    assert isinstance(error, HashMismatch)
    assert error.context["expected"] == f"sha256 {base_for(wheel).sha256}"
    assert error.context["seen"] == f"sha256 {base_for(other).sha256}"


def test_a_truncated_wheel_is_refused_with_both_hashes_and_sizes(
    cache: Cache, wheel: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short" / wheel.name
    short.parent.mkdir()
    short.write_bytes(wheel.read_bytes()[:700])
    error = refused(wheel, short, cache)
    assert isinstance(error, HashMismatch)
    assert f"700 of {wheel.stat().st_size} bytes" in error.message
    assert error.context["expected"] != error.context["seen"]


def test_a_base_of_another_version_under_the_same_name_is_named(
    cache: Cache, wheel: Path, tmp_path: Path
) -> None:
    error = refused(wheel, make_wheel(tmp_path / "other", inside="0.5.8"), cache)
    assert "calls itself sglang 0.5.8" in error.message


def test_a_wheel_that_is_patched_already_is_no_base(cache: Cache, wheel: Path, tmp_path: Path) -> None:
    error = refused(wheel, make_wheel(tmp_path / "other", inside="0.5.9+specctl.2"), cache)
    assert isinstance(error, AlreadyPatched)
    assert "0.5.9+specctl.2" in error.message


def test_a_wheelhouse_needs_no_network(cache: Cache, wheel: Path) -> None:
    pip = Pip()
    assert fetch(base_for(wheel), cache, wheelhouse=wheel.parent, runner=pip) == wheel
    assert pip.calls == []
    assert not cache.root.exists()


def test_a_wheelhouse_without_the_wheel_says_what_is_there(cache: Cache, wheel: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "house", "0.5.8")
    with pytest.raises(FetchFailed) as caught:
        fetch(base_for(wheel), cache, wheelhouse=tmp_path / "house")
    assert caught.value.context["sglang wheels there"] == "sglang-0.5.8-py3-none-any.whl"


def test_a_wheelhouse_with_a_wrong_wheel_is_refused(cache: Cache, wheel: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "house", files={"sglang/__init__.py": ""})
    with pytest.raises(HashMismatch):
        fetch(base_for(wheel), cache, wheelhouse=tmp_path / "house")


@pytest.mark.parametrize(
    ("says", "cause", "hint"),
    [
        ("NewConnectionError: Failed to establish a new connection", "cannot be reached", "--wheelhouse"),
        ("No module named pip", "has no pip", "install pip"),
        ("from versions: 0.5.8\nERROR: No matching distribution found", "has no such wheel", "index"),
        (
            "from versions: none\nERROR: No matching distribution found",
            "or cannot be reached",
            "--wheelhouse",
        ),
        ("ERROR: [Errno 28] No space left on device", "no space left", "free some space"),
        (
            "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
            "self-signed certificate')\nfrom versions: none\nERROR: No matching distribution found",
            "is not trusted here",
            "PIP_CERT=FILE",
        ),
        ("", "cannot be reached", "--wheelhouse"),
    ],
)
def test_a_failed_download_says_its_cause_in_one_sentence(
    cache: Cache, wheel: Path, says: str, cause: str, hint: str
) -> None:
    with pytest.raises(FetchFailed) as caught:
        fetch(base_for(wheel), cache, runner=Pip(None, says, 1))
    assert cause in caught.value.message
    assert hint in (caught.value.hint or "")
    assert files_below(cache.root) == []


@pytest.mark.parametrize(("code", "text"), DISK)
@pytest.mark.parametrize("operation", ["tempfile.mkdtemp", "pathlib.Path.replace"])
def test_a_full_or_read_only_disk_leaves_nothing_behind(
    cache: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, operation: str
) -> None:
    monkeypatch.setattr(operation, refuse(code))
    with pytest.raises(WriteFailed) as caught:
        fetch(base_for(wheel), cache, runner=Pip(wheel))
    assert text in caught.value.message
    assert files_below(cache.root) == []


def test_a_cache_that_is_a_file_is_named(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(WriteFailed) as caught:
        fetch(base_for(wheel), Cache(tmp_path / "cache"), runner=Pip(wheel))
    assert str(tmp_path / "cache") in caught.value.context["path"]


def test_pip_itself_gives_the_published_bytes_from_where_the_user_points_it(
    cache: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert fetch(base_for(wheel), cache).read_bytes() == wheel.read_bytes()


def test_pip_itself_without_a_network_ends_in_one_sentence(
    cache: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(FetchFailed, match=r"cannot be fetched: the package index cannot be reached"):
        fetch(base_for(wheel), cache)


def test_a_python_without_pip_is_told_apart(
    cache: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pip.py").write_text("import sys; sys.exit('/x/python: No module named pip')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(FetchFailed, match="has no pip"):
        fetch(base_for(wheel), cache)
    assert sys.executable


def test_errno_of_a_missing_hint_is_still_a_sentence(
    cache: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", refuse(errno.EIO))
    with pytest.raises(WriteFailed, match="the cache cannot be written: "):
        fetch(base_for(wheel), cache, runner=Pip(wheel))
