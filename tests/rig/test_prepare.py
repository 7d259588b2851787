"""Commands and inputs of `make rig`, without running any of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import prepare


def test_folders_of_wheels_that_pip_knows_are_given_to_uv() -> None:
    assert prepare.uv_environment({"PIP_FIND_LINKS": "one two"})["UV_FIND_LINKS"] == "one,two"
    kept = prepare.uv_environment({"PIP_FIND_LINKS": "one", "UV_FIND_LINKS": "mine"})
    assert kept["UV_FIND_LINKS"] == "mine"
    assert "UV_FIND_LINKS" not in prepare.uv_environment({})


def test_nothing_is_installed_without_its_hash() -> None:
    argv = prepare.install_argv("uv", Path("python"), Path("lock.txt"), None)
    assert "--require-hashes" in argv
    assert "--index" not in argv


def test_an_index_for_torch_is_asked_beside_the_usual_one() -> None:
    argv = prepare.install_argv("uv", Path("python"), Path("lock.txt"), "https://example.org/cpu")
    assert argv[argv.index("--index") + 1] == "https://example.org/cpu"
    assert argv[argv.index("--index-strategy") + 1] == "unsafe-best-match"


LOCK = """# made by hand
ninja==1.13.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
numpy==2.2.6 ; python_version < '3.11' \\
    --hash=sha256:cc
xgrammar==0.1.27 \\
    --hash=sha256:dd
"""


def test_some_packages_are_taken_out_of_a_lock_with_all_their_hashes() -> None:
    taken = prepare.pins_of(LOCK, ["xgrammar", "ninja"])
    assert taken.count("--hash") == 3
    assert "numpy" not in taken
    assert "#" not in taken


def test_a_lock_without_a_wanted_package_is_an_error() -> None:
    with pytest.raises(prepare.CannotPrepare, match="outlines"):
        prepare.pins_of(LOCK, ["outlines"])


def test_a_package_with_a_pin_for_each_python_keeps_them_all() -> None:
    lock = LOCK + "numpy==2.4.2 ; python_version >= '3.11' \\\n    --hash=sha256:ee\n"
    assert prepare.pins_of(lock, ["numpy"]).count("numpy==") == 2


def test_the_shipped_lock_names_all_that_the_load_generator_needs() -> None:
    text = (prepare.LOCKS / f"{prepare.BASE}-cuda.txt").read_text()
    assert "datasets==" in prepare.pins_of(text, prepare.BENCH)
