"""Bases from git refs and checkouts: pinned by content, built by their own backend."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from base.builders import Pip, git, make_repository, sources
from specctl.base.cache import Cache
from specctl.base.errors import AlreadyPatched, HashMismatch, RecordError, SourceError
from specctl.base.fetch import fetch, silent
from specctl.base.hashing import source_files, tree_sha256
from specctl.base.model import Base
from specctl.base.process import Finished
from specctl.base.source import git_clone_argv, uv_build_argv
from specctl.base.source_base import base_of_git, base_of_tree
from specctl.base.store import BaseStore
from specctl.errors import UsageError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository").mkdir()
    return make_repository(tmp_path / "repository")


@pytest.fixture
def store(tmp_path: Path) -> BaseStore:
    return BaseStore(tmp_path / "bases")


def from_git(repository: Path, ref: str, store: BaseStore, cache: Cache, **given: str) -> Base:
    return base_of_git(str(repository), ref, store, cache, say=silent, **given)


def test_a_tag_becomes_a_base_with_the_version_of_the_tag(
    repository: Path, store: BaseStore, cache: Cache
) -> None:
    base = from_git(repository, "v0.5.9", store, cache, name="mine")
    assert (base.version, base.like, base.kind) == ("0.5.9", "0.5.9", "git")
    assert base.source.commit == git(repository, "rev-parse", "v0.5.9^{commit}")  # type: ignore[union-attr]
    assert base.route is not None
    assert base.locks["cuda"].file == "0.5.9-cuda.txt"
    store.add(base)
    assert store.get("mine") == base.__class__(**{**vars(base), "origin": str(store.folder / "mine.yaml")})
    assert [p.name for p in (cache.root / "wheels").iterdir()] == []


@pytest.mark.parametrize("ref", ["main", "HEAD"])
def test_a_branch_is_pinned_to_its_commit_of_today(
    repository: Path, store: BaseStore, cache: Cache, ref: str
) -> None:
    base = from_git(repository, ref, store, cache)
    commit = git(repository, "rev-parse", "main")
    assert base.source.commit == commit  # type: ignore[union-attr]
    assert base.version == f"0.5.9.post0.dev1+g{commit[:7]}"
    assert base.name == f"0.5.9.post0.dev1-{commit[:10]}"
    assert base.like == "0.5.9"


def test_a_full_commit_is_a_ref_too(repository: Path, store: BaseStore, cache: Cache) -> None:
    commit = git(repository, "rev-parse", "v0.5.9^{commit}")
    assert from_git(repository, commit, store, cache).source.commit == commit  # type: ignore[union-attr]


def test_a_git_base_is_built_into_a_wheel_and_kept_under_its_content(
    repository: Path, store: BaseStore, cache: Cache
) -> None:
    base = from_git(repository, "v0.5.9", store, cache)
    said: list[str] = []
    wheel = fetch(base, cache, say=said.append)
    assert wheel == cache.root / "wheels" / base.sha256 / "sglang-0.5.9-py3-none-any.whl"
    assert "sglang/srt/server_args.py" in zipfile.ZipFile(wheel).namelist()
    assert any("building" in line for line in said)
    calls: list[list[str]] = []

    def never(argv: list[str], **_: object) -> Finished:
        calls.append(argv)
        return Finished(1, "", "")

    assert fetch(base, cache, runner=never) == wheel
    assert calls == []


def test_a_branch_that_moved_on_still_gives_the_pinned_commit(
    repository: Path, store: BaseStore, cache: Cache
) -> None:
    base = from_git(repository, "main", store, cache)
    (repository / "python" / "sglang" / "later.py").write_text("")
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "third")
    assert "sglang/later.py" not in zipfile.ZipFile(fetch(base, cache)).namelist()


def test_content_that_is_not_the_pinned_is_refused_with_both_hashes(
    repository: Path, store: BaseStore, cache: Cache
) -> None:
    base = from_git(repository, "v0.5.9", store, cache)
    other = base.source.__class__(**{**vars(base.source), "sha256": "0" * 64})
    with pytest.raises(HashMismatch) as caught:
        fetch(base.__class__(**{**vars(base), "source": other}), cache)
    assert caught.value.context == {"expected": "sha256 " + "0" * 64, "seen": f"sha256 {base.sha256}"}
    assert list((cache.root / "wheels").rglob("*.whl")) == []


@pytest.mark.parametrize(
    ("url", "ref", "error", "says"),
    [
        (None, "v9.9", SourceError, "has no ref 'v9.9'"),
        ("/no/such/repository", "v0.5.9", SourceError, "cannot clone"),
        (None, "--upload-pack=x", UsageError, "no git ref"),
        ("https://user:hunter2@example.org/x.git", "main", UsageError, "holds a password"),
    ],
)
def test_a_ref_that_cannot_be_had_is_one_sentence(
    repository: Path, store: BaseStore, cache: Cache, url: str | None, ref: str, error: type, says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        base_of_git(url or str(repository), ref, store, cache, say=silent)
    assert "hunter2" not in str(caught.value.as_dict())
    assert list((cache.root / "wheels").iterdir() if cache.root.exists() else []) == []


def test_a_repository_without_sglang_is_refused(repository: Path, store: BaseStore, cache: Cache) -> None:
    with pytest.raises(SourceError, match="no sglang"):
        from_git(repository, "main", store, cache, subdirectory="python/sglang/srt")


def test_a_build_that_fails_shows_what_uv_said(tmp_path: Path, store: BaseStore, cache: Cache) -> None:
    tree = checkout(tmp_path / "tree")
    (tree / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'gone'\n")
    base = base_of_tree(tree, store, version="0.5.9")
    with pytest.raises(SourceError, match="cannot be built") as caught:
        fetch(base, cache)
    assert "gone" in caught.value.context["uv build"]


def checkout(folder: Path, **changes: str) -> Path:
    """A checkout without git data: a folder that holds sglang/."""
    for path, text in {**sources(), **changes}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_checkout_is_pinned_as_it_is_now_and_refused_after_a_change(
    repository: Path, store: BaseStore, cache: Cache
) -> None:
    (repository / "python" / "sglang" / "mine.py").write_text("MINE = 1\n")
    base = base_of_tree(repository, store)
    assert base.kind == "tree"
    assert base.version.startswith("0.5.9.post0.dev1+g")
    wheel = fetch(base, cache)
    assert "sglang/mine.py" in zipfile.ZipFile(wheel).namelist()
    assert not (repository / "python" / "sglang" / "_version.py").exists()
    cache.drop(base.sha256)
    (repository / "python" / "sglang" / "mine.py").write_text("MINE = 2\n")
    with pytest.raises(HashMismatch, match="is not what base"):
        fetch(base, cache)


def test_caches_and_builds_beside_the_sources_do_not_count(tmp_path: Path) -> None:
    tree = checkout(tmp_path / "tree")
    before = tree_sha256(tree)
    for name in ("build/lib/x.py", "sglang/__pycache__/a.pyc", "sglang.egg-info/PKG-INFO", ".git/HEAD"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    assert tree_sha256(tree) == before
    (tree / "sglang" / "build").mkdir()
    (tree / "sglang" / "build" / "x.py").write_text("x")
    assert "sglang/build/x.py" in source_files(tree)
    assert tree_sha256(tree) != before


def test_moving_bytes_between_name_and_content_changes_the_hash(tmp_path: Path) -> None:
    one, two = checkout(tmp_path / "1", a="bc"), checkout(tmp_path / "2", ab="c")
    assert tree_sha256(one) != tree_sha256(two)


@pytest.mark.parametrize(
    "changes",
    [
        {"sglang/srt/speculative/dynamic_disable/__init__.py": ""},
        {"sglang/_version.py": "__version__ = version = '0.5.9+specctl.1'\n"},
    ],
)
def test_a_patched_checkout_is_no_base(tmp_path: Path, store: BaseStore, changes: dict[str, str]) -> None:
    with pytest.raises(AlreadyPatched):
        base_of_tree(checkout(tmp_path / "tree", **changes), store)


def test_a_checkout_that_says_no_version_asks_for_one(tmp_path: Path, store: BaseStore) -> None:
    tree = checkout(tmp_path / "tree", **{"sglang/_version.py": "", "sglang/version.py": ""})
    with pytest.raises(UsageError, match="does not say its version"):
        base_of_tree(tree, store)
    with pytest.raises(UsageError, match="is no version"):
        base_of_tree(tree, store, version="today")
    with pytest.raises(UsageError, match="no release that specctl knows"):
        base_of_tree(tree, store, version="0.5.9", like="0.4.0")
    assert base_of_tree(tree, store, version="0.5.9").like == "0.5.9"


def test_a_name_stands_for_one_content(tmp_path: Path, store: BaseStore) -> None:
    tree = checkout(tmp_path / "tree")
    first = base_of_tree(tree, store, name="mine")
    store.add(first)
    store.add(first)
    (tree / "sglang" / "more.py").write_text("")
    second = base_of_tree(tree, store, name="mine")
    with pytest.raises(RecordError, match="another base 'mine'") as caught:
        store.add(second)
    assert caught.value.context["there"] == f"sha256 {first.sha256}"
    assert caught.value.context["new"] == f"sha256 {second.sha256}"
    store.add(second, replace=True)
    assert store.get("mine").sha256 == second.sha256


def test_a_source_base_cannot_take_a_releases_name(tmp_path: Path, store: BaseStore) -> None:
    with pytest.raises(RecordError, match="is the published release"):
        store.add(base_of_tree(checkout(tmp_path / "tree"), store, name="0.5.9"))
    with pytest.raises(UsageError, match="no name for a base"):
        base_of_tree(checkout(tmp_path / "tree"), store, name="../x")


def test_the_command_lines_keep_what_the_user_gives_out_of_the_options() -> None:
    assert git_clone_argv("-x", Path("d"))[-3:] == ["--", "-x", "d"]
    assert uv_build_argv("uv", "py", Path("s"), Path("o"))[:3] == ["uv", "build", "--wheel"]
    assert Pip().calls == []
