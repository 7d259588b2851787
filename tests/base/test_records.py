"""Base records: the shipped ones are complete, the user's own are checked with the file that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from base.builders import write_record
from specctl.base.errors import RecordError, UnknownBase
from specctl.base.lock import pins_of, shipped_lock
from specctl.base.model import Base
from specctl.base.records import parse_record
from specctl.base.store import BaseStore

RELEASES = BaseStore(Path("no-such-folder")).releases()
LOCKED = [(base, target) for base in RELEASES for target, lock in base.locks.items() if lock.file]


def test_the_default_base_is_shipped_with_its_published_hash() -> None:
    base = BaseStore(Path("no-such-folder")).get("0.5.9")
    assert base.sha256 == "8a936c4d25fea605f44254e533cff2144c73ceffbc1f8738aba393461bbb64d1"
    assert (base.tag, base.released, base.glibc) == ("v0.5.9", "2026-02-23", "2.28")
    assert set(base.locks) == {"cuda", "cpu", "cpu-plain"}
    assert base.workers["EAGLEWorkerV2"] == "sglang/srt/speculative/eagle_worker_v2.py"


@pytest.mark.parametrize("base", RELEASES, ids=lambda base: base.name)
def test_a_release_record_is_whole_and_consistent(base: Base) -> None:
    assert base.name == base.version == base.like
    assert re.fullmatch("[0-9a-f]{64}", base.sha256)
    assert base.tag == f"v{base.version}"
    assert "3.12" in SpecifierSet(base.python)
    if base.route is not None:
        classes = [c for a in base.route.algorithms.values() for c in (a.sync, a.overlap) if c]
        assert set(classes) <= set(base.workers)
        assert set(base.route.eagle_like) <= set(base.route.algorithms)
        assert set(base.route.aliases.values()) <= set(base.route.algorithms)


@pytest.mark.parametrize(("base", "target"), LOCKED, ids=lambda x: getattr(x, "name", x))
def test_a_lock_is_full_hashed_and_tells_nothing_of_a_machine(base: Base, target: str) -> None:
    text = shipped_lock(base, target) or ""
    blocks = re.split(r"(?m)^(?=[^\s#])", text)[1:]
    assert len(blocks) > 80
    for block in blocks:
        line = block.split("\\")[0]
        requirement = Requirement(line.strip())
        assert str(requirement.specifier).startswith("=="), line
        assert requirement.url is None
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), line
    assert "sglang" not in pins_of(text)
    assert not re.search(r"https?:|(?m:^|\s)/\w|--index|--find-links", text)
    assert f"--target {target}" in text.splitlines()[3 if base.locks[target].later else 2]


def test_the_cuda_lock_holds_what_the_record_says_the_base_was_built_against() -> None:
    for base in RELEASES:
        if "cuda" in base.locks and base.locks["cuda"].file:
            pins = pins_of(shipped_lock(base, "cuda") or "")
            assert {name: pins[name] for name in base.pins} == dict(base.pins)


def test_the_cpu_lock_agrees_with_the_cuda_lock_but_for_torch() -> None:
    base = BaseStore(Path("no-such-folder")).get("0.5.9")
    cuda, cpu = (pins_of(shipped_lock(base, target) or "") for target in ("cuda", "cpu"))
    for name in ("transformers", "openai", "huggingface-hub", "pydantic", "uvloop"):
        assert cpu[name] == cuda[name]
    assert cpu["torch"].endswith("+cpu")
    assert not any(name.startswith(("nvidia-c", "cuda-")) for name in cpu)


def test_an_unknown_base_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownBase) as caught:
        BaseStore(Path("no-such-folder")).get("0.5.09")
    assert caught.value.hint == "did you mean '0.5.9'?"
    assert caught.value.exit_code == 2


def test_a_users_own_record_of_a_wheel_is_found(tmp_path: Path, wheel: Path) -> None:
    write_record(tmp_path / "bases", wheel, "mine")
    found = BaseStore(tmp_path / "bases").get("mine")
    assert found.version == "0.5.9"
    assert [b.name for b in BaseStore(tmp_path / "bases").all()][-1] == "mine"


def test_one_bad_record_does_not_hide_what_an_inventory_may_name(tmp_path: Path, wheel: Path) -> None:
    path = write_record(tmp_path / "bases", wheel, "mine")
    path.write_text(path.read_text().replace("version: 0.5.9", "version: 0.5.8"))
    (tmp_path / "bases" / "bad.yaml").write_text("a: [")
    found = BaseStore(tmp_path / "bases").versions()
    assert {"0.5.9", "0.5.8"} <= set(found)
    assert "mine" not in found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"wheel": None}, "exactly one of"),
        ({"git": {}}, "exactly one of"),
        ({"pins": None}, "is wrong"),
        ({"tag": ...}, "has no 'tag'"),
        ({"wheel": {"file": "x", "sha256": "y", "size": 1, "colour": 1}}, "is wrong"),
        ({"name": "other"}, "is for another name, 'other'"),
        ({"name": "0.5.9"}, "is for another name, '0.5.9'"),
    ],
)
def test_a_wrong_record_is_named(tmp_path: Path, wheel: Path, change: dict[str, object], says: str) -> None:
    path = write_record(tmp_path / "bases", wheel, "mine")
    raw = {**yaml.safe_load(path.read_text()), **change}
    kept = {key: value for key, value in raw.items() if value is not ... and (key != "wheel" or value)}
    path.write_text(yaml.safe_dump(kept))
    with pytest.raises(RecordError, match=says) as caught:
        BaseStore(tmp_path / "bases").get("mine")
    assert caught.value.context["file"] == str(path)


def test_a_record_may_not_hide_a_release(tmp_path: Path, wheel: Path) -> None:
    path = write_record(tmp_path / "bases", wheel, "mine").rename(tmp_path / "bases" / "0.5.9.yaml")
    path.write_text(path.read_text().replace("name: mine", "name: 0.5.9"))
    with pytest.raises(RecordError, match="hides the published release"):
        BaseStore(tmp_path / "bases").all()


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "", "\x00"])
def test_what_is_no_record_is_said_so(text: str) -> None:
    with pytest.raises(RecordError):
        parse_record(text, "x.yaml")
