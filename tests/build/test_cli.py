"""`specctl build` from the command line, offline, over small and real bases."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from base.builders import make_repository, write_record
from click.testing import CliRunner, Result
from rig import environment

from specctl.base.cache import Cache
from specctl.base.store import BaseStore
from specctl.build.distribution import Distribution
from specctl.build.revision import read_pins
from specctl.cli.main import cli
from specctl.errors import SpecctlError
from specctl.overlay import OverlayStore


@pytest.fixture
def usual(tmp_path: Path, wheel: Path, store: OverlayStore) -> list[str]:
    """The command for the small base `mine`, offline."""
    write_record(tmp_path / "bases", wheel, "mine")
    return [
        *("build", "--base", "mine", "--bases", str(tmp_path / "bases")),
        *(
            "--wheelhouse",
            str(wheel.parent),
            "--overlays",
            str(store.root),
            "--output",
            str(tmp_path / "out"),
        ),
    ]


def run(*argv: str) -> Result:
    return CliRunner().invoke(cli, list(argv))


def failure(*argv: str) -> SpecctlError:
    result = run(*argv)
    assert isinstance(result.exception, SpecctlError), result.output
    return result.exception


def read(*argv: str) -> Any:
    result = run(*argv, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_build_says_where_the_wheel_is_and_what_was_validated(usual: list[str], tmp_path: Path) -> None:
    result = run(*usual, "--validate-with", sys.executable)
    assert result.exit_code == 0, result.output
    wheel = tmp_path / "out" / "sglang-0.5.9+specctl.1-py3-none-any.whl"
    assert str(wheel) in result.stdout.replace("\n", "")
    assert Distribution.load(tmp_path / "out").wheel_sha256 in result.stdout
    assert f"imported with {sys.executable}: 3 modules" in result.stdout.replace("\n", " ")
    assert "(unchanged)" in run(*usual, "--no-import").stdout


def test_a_build_without_an_import_says_it_loudly_and_in_json(usual: list[str]) -> None:
    result = run(*usual, "--no-import")
    assert "import validation was NOT run: --no-import was given" in result.stderr.replace("\n", " ")
    document = read(*usual, "--no-import")
    assert document["changed"] is False
    assert document["validation"]["imported"] is False
    assert document["distribution"]["version"] == "0.5.9+specctl.1"


def test_changed_overlays_need_a_new_number(usual: list[str], store: OverlayStore, tmp_path: Path) -> None:
    pins = store.root / "distribution.yaml"
    assert read(*usual, "--no-import", "--bump")["distribution"]["version"] == "0.5.9+specctl.1"
    first = read_pins(pins)
    manifest = store.root / "small" / "overlay.yaml"
    manifest.write_text(manifest.read_text().replace("adds a flag", "adds one flag"))
    before = Distribution.load(tmp_path / "out")
    assert failure(*usual, "--no-import").code == "revision-taken"
    assert Distribution.load(tmp_path / "out") == before
    assert read(*usual, "--no-import", "--revision", "7")["distribution"]["version"] == "0.5.9+specctl.7"
    assert read_pins(pins) == first
    assert read(*usual, "--no-import", "--repin")["distribution"]["version"] == "0.5.9+specctl.1"
    assert read_pins(pins)["mine"].inputs != first["mine"].inputs
    manifest.write_text(manifest.read_text().replace("adds one flag", "adds the flag"))
    assert read(*usual, "--no-import", "--bump")["distribution"]["version"] == "0.5.9+specctl.2"
    assert read_pins(pins)["mine"].revision == 2


def test_a_bump_for_some_overlays_does_not_spoil_the_plain_build(
    usual: list[str], store: OverlayStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bumped = run(*usual, "--no-import", "--bump")
    assert bumped.exit_code == 0, bumped.output
    pins = store.root / "distribution.yaml"
    assert f"pinned revision 1 of mine in {pins}" in bumped.stderr.replace("\n", "")
    shutil.copytree(store.root / "small", store.root / "other")
    manifest = store.root / "other" / "overlay.yaml"
    manifest.write_text(manifest.read_text().replace("name: small", "name: other"))
    before = pins.read_bytes()
    for extra in ("--bump", "--repin"):
        error = failure(*usual, "--overlay", "other", extra, "--no-import")
        assert (error.code, error.exit_code) == ("usage", 2)
        assert "--revision N" in (error.hint or "")
    some = failure(*usual, "--overlay", "other", "--no-import")
    assert some.code == "revision-taken"
    assert "--bump" not in (some.hint or "")
    shutil.rmtree(store.root / "other")
    monkeypatch.setattr(OverlayStore, "shipped", True)  # as after `pip install`
    assert "come with specctl" in failure(*usual, "--bump", "--no-import").message
    assert pins.read_bytes() == before
    assert run(*usual, "--no-import").exit_code == 0


def test_a_build_that_fails_pins_nothing(usual: list[str], store: OverlayStore, tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    assert (
        failure(*usual, "--bump", "--validate-with", str(tmp_path / "python")).code == "invalid-distribution"
    )
    assert not (store.root / "distribution.yaml").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("extra", "code", "exit_code"),
    [
        (["--base", "0.5.8"], "unknown-base", 2),
        (["--overlay", "smal"], "unknown-overlay", 2),
        (["--bump", "--repin"], "usage", 2),
        (["--revision", "0"], "usage", 2),
        (["--wheelhouse", "."], "fetch-failed", 1),
        (["--output", __file__], "output-not-empty", 2),
        (["--output", f"{__file__}/out", "--no-import"], "write-failed", 1),
    ],
)
def test_bad_input_is_one_sentence_with_the_right_exit_code(
    usual: list[str], tmp_path: Path, extra: list[str], code: str, exit_code: int
) -> None:
    error = failure(*usual, *extra)
    assert (error.code, error.exit_code) == (code, exit_code)
    assert "\n" not in error.message
    assert not (tmp_path / "out").exists()


def test_a_git_base_and_a_checkout_are_built_over(
    usual: list[str], store: OverlayStore, tmp_path: Path
) -> None:
    (tmp_path / "r").mkdir()
    repository = make_repository(tmp_path / "r")
    bases = ["--bases", str(tmp_path / "bases")]
    add = run("base", *bases, "add", "--git", str(repository), "--ref", "v0.5.9", "--name", "ours")
    assert add.exit_code == 0, add.output
    built = read(*usual, "--base", "ours", "--no-import")["distribution"]
    assert built["base_sha256"] == BaseStore(tmp_path / "bases").get("ours").sha256
    assert built["version"] == "0.5.9+specctl.1"
    built = read(*usual, "--tree", str(repository), "--no-import")["distribution"]
    assert built["version"] == "0.5.9.post0.dev1+specctl.1"
    assert (tmp_path / "out" / "lock-cuda.txt").is_file()


def real_wheel() -> Path:
    """The published wheel of the default base, from a wheelhouse, else from the user's own cache."""
    base = BaseStore(Path("no-such-folder")).get("0.5.9")
    house = os.environ.get("SPECCTL_WHEELHOUSE")
    found = Path(house) / base.source.file if house else Cache.discover().find(base.sha256)  # type: ignore[union-attr]
    if found is None or not found.is_file():
        pytest.skip(
            "the wheel of 0.5.9 is not here (run `specctl base fetch 0.5.9`, or set SPECCTL_WHEELHOUSE)"
        )
    return found


REAL_CACHE = os.environ.get("XDG_CACHE_HOME")


@pytest.mark.rig
def test_the_shipped_overlays_build_import_and_keep_their_checks_on_the_real_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if REAL_CACHE is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", REAL_CACHE)
    house = real_wheel().parent
    if not environment.python().exists():
        pytest.skip(f"the rig is not made yet (run `make rig`): {environment.python()} is missing")
    monkeypatch.setenv("PYTHONPATH", str(environment.SHIMS))
    argv = [
        "build",
        "--revision",
        "1",
        "--wheelhouse",
        str(house),
        "--validate-with",
        str(environment.python()),
    ]
    one = read(*argv, "--output", str(tmp_path / "one"))
    checked = one["validation"]
    assert checked["imported"] is True
    assert "--speculative-disable-batch-threshold" in checked["flags"]
    assert len(checked["flags"]) == 4
    assert checked["checks"] >= 10
    two = read(*argv, "--output", str(tmp_path / "two"), "--no-import")
    assert two["distribution"] == one["distribution"]
    status = run("overlay", "status", str(next((tmp_path / "one").glob("*.whl"))))
    assert status.exit_code == 0, status.output
    assert "applied" in status.output
