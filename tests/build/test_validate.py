"""Importing a distribution and trying its flags, in a real Python on a small sglang."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from base.builders import make_wheel

from build.builders import CHECKS, EDITED, FLAG, MODULE_TEXT, make_overlays
from specctl.base.fetch import silent
from specctl.build.builder import Plan, build
from specctl.build.checks import Checks, Refusal, load_checks
from specctl.build.errors import Invalid
from specctl.build.validate import find_python, module_name, validate_import, validate_static
from specctl.errors import UsageError
from specctl.overlay import OverlayStore

MakePlan = Callable[..., Plan]


def test_modules_are_imported_and_the_flags_tried_in_the_parser_itself(plan: MakePlan) -> None:
    checked = build(plan(python=sys.executable), say=silent).validation
    assert checked.imported_with == sys.executable
    assert (checked.compiled, checked.modules, checked.checks) == (3, 3, 5)
    assert FLAG in checked.flags


def test_a_build_without_an_import_says_so(plan: MakePlan) -> None:
    checked = build(plan(), say=silent).validation
    assert (checked.imported_with, checked.why_not_imported, checked.modules) == (None, "not asked for", 0)


@pytest.mark.parametrize(
    ("module", "checks", "says"),
    [
        ("import no_such_thing\n" + MODULE_TEXT, CHECKS, "No module named 'no_such_thing'"),
        (MODULE_TEXT.replace("parser.add", "len or parser.add"), {}, None),
        (MODULE_TEXT, {**CHECKS, "flags": ["--gone"]}, "has no --gone"),
        (MODULE_TEXT, {**CHECKS, "accepts": [[FLAG, -5]]}, f"refuses {FLAG} -5: ValueError: must be 0"),
        (MODULE_TEXT.replace("< 0", "< -9"), CHECKS, f"accepts {FLAG} -1, which should be refused"),
        (MODULE_TEXT.replace("0 or more", "positive"), CHECKS, "but says: ValueError: must be positive"),
        (MODULE_TEXT + "\nraise SystemExit(3)\n", CHECKS, "cannot be imported"),
    ],
)
def test_a_distribution_that_does_not_work_is_not_put_in_place(
    plan: MakePlan, wheel: Path, tmp_path: Path, module: str, checks: dict[str, object], says: str | None
) -> None:
    store = make_overlays(tmp_path / "other", wheel, module=module, edited=EDITED, checks=checks)
    broken = plan(overlays=tuple(store.load_all()), python=sys.executable)
    if says is None:
        build(broken, say=silent)
        return
    with pytest.raises(Invalid) as caught:
        build(broken, say=silent)
    assert says in caught.value.message + str(caught.value.context)
    assert not (tmp_path / "out").exists()


def test_a_python_that_cannot_be_run_is_named(plan: MakePlan, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be run"):
        build(plan(python=str(tmp_path / "python")), say=silent)


def test_an_import_from_elsewhere_does_not_count(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "sglang").mkdir(parents=True)
    (elsewhere / "sglang" / "__init__.py").write_text("")
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={elsewhere}:$PYTHONPATH exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    with pytest.raises(Invalid, match="not from the distribution"):
        validate_import(
            wheel,
            str(wrapper),
            tmp_path / "work",
            changed={},
            checks=Checks(),
            known_flags=frozenset(),
            environment={},
        )


def test_a_wheel_without_the_overlay_is_not_judged_as_patched(wheel: Path, store: OverlayStore) -> None:
    with pytest.raises(Invalid, match="not judged as patched by small"):
        validate_static(wheel, store.load_all(), {})


def test_a_wheel_with_a_file_that_is_nobodys_is_refused(
    tmp_path: Path, plan: MakePlan, store: OverlayStore
) -> None:
    build(plan(), say=silent)
    made = next((tmp_path / "out").glob("*.whl"))
    assert validate_static(made, store.load_all(), {"sglang/a.py": b"x = 1\n", "sglang/b.txt": b"("}) == 1


def test_no_python_with_torch_is_said_and_an_explicit_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python("/some/python") == ("/some/python", "")
    assert find_python("bin/python") == (str(Path("bin/python").absolute()), "")  # the import runs elsewhere
    assert find_python("python3.11") == ("python3.11", "")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    python, why = find_python(None)
    assert python is None
    assert "/no/such/python" in why


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("sglang/srt/a.py", "sglang.srt.a"),
        ("sglang/srt/__init__.py", "sglang.srt"),
        ("sglang/x.py", "sglang.x"),
    ],
)
def test_a_file_has_the_name_of_its_module(path: str, name: str) -> None:
    assert module_name(path) == name


def test_checks_of_an_overlay_are_read_and_a_wrong_file_is_named(
    store: OverlayStore, wheel: Path, tmp_path: Path
) -> None:
    found = load_checks(store.load_all())
    assert found.flags == (FLAG,)
    assert found.accepts == ((), (FLAG, "16"))
    assert found.refuses[0] == Refusal((FLAG, "-1"), "must be 0 or more")
    plain = make_overlays(tmp_path / "plain", wheel)
    assert load_checks(plain.load_all()) == Checks()
    path = plain.load("small").root / "checks.yaml"
    for text in ("refuses: [{args: [x]}]", "accepts: [text]", "flags: [", "- 1"):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"checks\.yaml of overlay small") as caught:
            load_checks(plain.load_all())
        assert caught.value.context["file"] == str(path)


def test_a_wheel_of_another_base_does_not_pass_for_patched(tmp_path: Path, store: OverlayStore) -> None:
    other = make_wheel(tmp_path / "other", files={"sglang/__init__.py": ""})
    with pytest.raises(Invalid):
        validate_static(other, store.load_all(), {})
