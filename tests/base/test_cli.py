"""`specctl base`: what people see, the JSON, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from base.builders import make_repository, make_wheel, write_record
from specctl.cli.main import cli
from specctl.errors import SpecctlError


@pytest.fixture
def own(tmp_path: Path, wheel: Path) -> list[str]:
    """The command with a folder of records in which `mine` is the small wheel."""
    write_record(tmp_path / "bases", wheel, "mine")
    return ["base", "--bases", str(tmp_path / "bases")]


def run(*argv: str) -> Result:
    return CliRunner().invoke(cli, list(argv))


def read(*argv: str) -> Any:
    result = run(*argv, "--json")
    assert result.exit_code in (0, 3), result.output
    return json.loads(result.stdout)


def failure(*argv: str) -> SpecctlError:
    result = run(*argv)
    assert isinstance(result.exception, SpecctlError), result.output
    return result.exception


def test_list_and_show_tell_the_same_facts_to_people_and_programs(own: list[str]) -> None:
    assert "0.5.9" in run(*own, "list").stdout
    listed = {base["name"]: base for base in read(*own, "list")}
    assert listed["0.5.9"]["kind"] == "wheel"
    assert listed["mine"]["cached"] is False
    shown = run("base", "show", "0.5.9").stdout
    assert "8a936c4d25fea605f44254e533cff2144c73ceffbc1f8738aba393461bbb64d1" in shown
    assert "sglang/srt/speculative/eagle_worker_v2.py" in shown
    assert read("base", "show", "0.5.9")["pins"]["torch"] == "2.9.1"


def test_fetch_and_check_from_a_wheelhouse(own: list[str], wheel: Path) -> None:
    house = ["--wheelhouse", str(wheel.parent)]
    assert read(*own, "fetch", "mine", *house)["wheel"] == str(wheel)
    assert "agree" in run(*own, "check", "mine", *house).stdout
    assert read(*own, "check", "mine", "--wheel", str(wheel))["ok"] is True


def test_check_refuses_another_wheel(own: list[str], tmp_path: Path) -> None:
    other = make_wheel(tmp_path / "other", files={})
    assert failure(*own, "check", "mine", "--wheel", str(other)).code == "hash-mismatch"
    assert failure(*own, "check", "mine", "--wheel", str(tmp_path / "gone")).code == "bad-wheel"


def test_a_checkout_is_judged_against_its_base(own: list[str], wheel: Path, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r") if (tmp_path / "r").mkdir() is None else tmp_path
    judge = [*own, "check", "mine", "--tree", str(repository), "--wheelhouse", str(wheel.parent)]
    told = read(*judge)
    assert (told["identical"], told["added"], told["modified"]) == (False, ["sglang/extra.py"], [])
    assert run(*judge).exit_code == 3
    (repository / "python/sglang/extra.py").unlink()
    assert run(*judge).exit_code == 0
    (repository / "python/sglang/srt/speculative/eagle_worker.py").write_text("changed = 1\n")
    (repository / "python/sglang/srt/server_args.py").unlink()
    told = read(*judge)
    assert told["modified"] == ["sglang/srt/speculative/eagle_worker.py"]
    assert told["missing"] == ["sglang/srt/server_args.py"]
    assert told["workers"]["EAGLEWorker"] == "changed"
    assert "EAGLEWorker: changed" in run(*judge).stdout


def test_a_checkout_of_no_known_version_says_so(own: list[str], tmp_path: Path) -> None:
    (tmp_path / "t" / "sglang").mkdir(parents=True)
    (tmp_path / "t" / "sglang" / "__init__.py").write_text("")
    result = run(*own, "check", "--tree", str(tmp_path / "t"))
    assert result.exit_code == 3
    assert "no base of that version is known" in result.stdout
    assert failure(*own, "check", "0.5.8", "--tree", str(tmp_path / "t")).code == "unknown-base"


def test_add_writes_a_record_that_the_other_commands_find(own: list[str], tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    repository = make_repository(tmp_path / "r")
    added = read(*own, "add", "--git", str(repository), "--ref", "v0.5.9", "--name", "ours")
    assert added["source"]["ref"] == "v0.5.9"
    assert Path(added["record"]) == tmp_path / "bases" / "ours.yaml"
    assert read(*own, "fetch", "ours")["sha256"] == added["source"]["sha256"]
    assert {base["name"]: base["cached"] for base in read(*own, "list")}["ours"] is True
    assert "RECORD agree" in run(*own, "check", "ours").stdout
    assert read(*own, "add", "--tree", str(repository), "--name", "tree")["kind"] == "tree"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["add"], "usage"),
        (["add", "--git", "x"], "usage"),
        (["add", "--git", "x", "--tree", "."], "usage"),
        (["fetch", "0.5.8"], "unknown-base"),
        (["lock", "0.5.9", "--target", "rocm"], "base-record"),
        (["lock", "mine", "--target", "cuda", "--shipped"], "base-record"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(own: list[str], argv: list[str], code: str) -> None:
    error = failure(*own, *argv)
    assert (error.code, error.exit_code) == (code, 2)


def test_the_shipped_lock_is_printed_or_written_to_the_byte(tmp_path: Path) -> None:
    printed = run("base", "lock", "0.5.9", "--target", "cpu", "--shipped").stdout
    assert "\ntorch==2.13.0+cpu \\\n" in printed
    file = tmp_path / "lock.txt"
    assert run("base", "lock", "--target", "cpu", "--shipped", "--output", str(file)).exit_code == 0
    assert file.read_text() == printed
    (tmp_path / "f").write_text("")
    argv = ["base", "lock", "--target", "cpu", "--shipped", "--output", str(tmp_path / "f" / "lock.txt")]
    assert failure(*argv).code == "write-failed"
