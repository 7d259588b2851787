"""Resolving a lock: uv's command line, what its failure is told as, and a real run without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from base.builders import make_wheel
from specctl.base.errors import LockFailed, RecordError
from specctl.base.lock import header, lock_of, pins_of, resolve, shipped_lock, uv_compile_argv
from specctl.base.model import Lock
from specctl.base.process import Finished
from specctl.base.store import BaseStore

BASE = BaseStore(Path("no-such-folder")).get("0.5.9")


def argv_of(lock: Lock) -> list[str]:
    return uv_compile_argv("uv", lock, Path("in"), Path("out"))


def test_a_lock_is_resolved_as_of_its_release_day_without_traces_of_this_machine() -> None:
    argv = argv_of(BASE.locks["cuda"])
    assert argv[argv.index("--exclude-newer") + 1] == "2026-02-24T00:00:00Z"
    assert argv[argv.index("--python-version") + 1] == "3.10"
    assert argv[argv.index("--no-emit-package") + 1] == "sglang"
    assert {
        "--universal",
        "--generate-hashes",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-header",
    } <= set(argv)
    assert BASE.locks["cuda"].requires == ("sglang==0.5.9", "datasets>=3.6")


def test_the_load_generator_of_a_release_can_be_imported_with_what_the_lock_pins() -> None:
    # datasets before 3 asks pyarrow for a class that pyarrow 21 no longer has
    pins = pins_of(shipped_lock(BASE, "cuda") or "")
    assert int(pins["datasets"].split(".")[0]) >= 3
    assert int(pins["pyarrow"].split(".")[0]) >= 21


def test_a_platform_takes_the_place_of_universal_and_younger_packages_are_named() -> None:
    argv = argv_of(BASE.locks["cpu"])
    assert argv[argv.index("--python-platform") + 1] == "x86_64-manylinux_2_28"
    assert "--universal" not in argv
    assert "torch=2026-12-01T00:00:00Z" in argv


class Uv:
    """Stands for uv: writes a lock or fails with a text."""

    def __init__(self, text: str | None, says: str = "") -> None:
        self.text, self.says = text, says
        self.needs = ""

    def __call__(self, argv: Sequence[str], *, cwd: Path, **_: object) -> Finished:
        self.needs = Path(argv[3]).read_text()
        if self.text is None:
            return Finished(2, "", self.says)
        Path(argv[argv.index("--output-file") + 1]).write_text(self.text)
        return Finished(0, "", "")


def test_a_new_lock_says_on_top_what_it_is_and_how_to_make_it_again(tmp_path: Path) -> None:
    uv = Uv("six==1.0 \\\n    --hash=sha256:ab\n")
    text = resolve(BASE, "cpu", tmp_path, runner=uv)
    assert "torch==2.13.0+cpu\n" in uv.needs
    assert text == header(BASE, BASE.locks["cpu"]) + "six==1.0 \\\n    --hash=sha256:ab\n"
    assert "# Made by: specctl base lock 0.5.9 --target cpu\n" in text
    assert "# Younger than that: torch, triton.\n" in text
    assert pins_of(text) == {"six": "1.0"}


@pytest.mark.parametrize(
    ("target", "says", "hint"),
    [
        ("cpu", "there is no version of torch==2.13.0+cpu", "UV_TORCH_BACKEND=cpu"),
        ("cuda", "client error (Connect): dns error", "check the network"),
        ("cuda", "client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("cuda", "no solution", "above"),
    ],
)
def test_a_resolution_that_fails_says_what_to_do(tmp_path: Path, target: str, says: str, hint: str) -> None:
    with pytest.raises(LockFailed) as caught:
        resolve(BASE, target, tmp_path, runner=Uv(None, says))
    assert caught.value.context["uv"] == says
    assert hint in (caught.value.hint or "")


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(RecordError) as caught:
        lock_of(BASE, "rocm")
    assert caught.value.hint == "targets: cuda, cpu, cpu-plain"


def test_uv_itself_makes_a_lock_from_where_the_user_points_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "links", "1.0", name="needed", files={"needed/__init__.py": ""})
    make_wheel(tmp_path / "links", "0.5.9")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    lock = replace(BASE.locks["cuda"], requires=("sglang==0.5.9", "needed"), python="3.11")
    base = replace(BASE, locks={"cuda": lock})
    (tmp_path / "work").mkdir()
    text = resolve(base, "cuda", tmp_path / "work")
    assert pins_of(text) == {"needed": "1.0"}
    assert "--hash=sha256:" in text
    assert str(tmp_path) not in text
