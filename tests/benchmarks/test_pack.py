"""What travels to the GPU machine."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchmarks import pack

FILES = {
    "sglang/srt/server_args.py": "x = 1\n",
    "sglang/test/big.py": "not needed\n",
    "sglang/multimodal_gen/m.py": "not needed\n",
    "sglang-0.5.9+specctl.1.dist-info/METADATA": "Version: 0.5.9+specctl.1\n",
}
TRAVELS = {"site/sglang/srt/server_args.py", "site/sglang-0.5.9+specctl.1.dist-info/METADATA"}


def tree(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def wheel(folder: Path) -> Path:
    path = folder / "sglang-0.5.9+specctl.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        for name, text in FILES.items():
            z.writestr(name, text)
    return path


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as t:
        return {m.name for m in t if m.isfile()}


@pytest.mark.parametrize("source", ["tree", "wheel", "distribution"])
def test_the_package_under_test_comes_from_a_tree_a_wheel_or_a_distribution(
    tmp_path: Path, source: str
) -> None:
    (tmp_path / "in").mkdir()
    given = tree(tmp_path / "in") if source == "tree" else wheel(tmp_path / "in")
    pack.pack_sglang(given.parent if source == "distribution" else given, tmp_path / "out" / "sglang.tar.xz")
    assert names(tmp_path / "out" / "sglang.tar.xz") == TRAVELS


def test_the_same_package_gives_the_same_archive(tmp_path: Path) -> None:
    source = tree(tmp_path / "in")
    for name in ("a", "b"):
        pack.pack_sglang(source, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_something_else_than_sglang_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pack.PackError, match="no sglang wheel"):
        pack.pack_sglang(tmp_path, tmp_path / "out.tar.xz")


def test_archives_that_are_too_large_to_carry_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "LIMIT_BYTES", 100)
    with pytest.raises(pack.PackError, match="more than"):
        pack.pack(tmp_path / "out", "0.5.9", wheel(tmp_path), site=False)


@pytest.mark.parametrize("folder", ["include", "csrc", "cutlass/include", "cutlass/tools/util/include"])
def test_what_flashinfer_compiles_its_kernels_from_travels(tmp_path: Path, folder: str) -> None:
    header = tmp_path / "flashinfer" / "data" / folder / "x.h"
    header.parent.mkdir(parents=True)
    header.touch()
    pack.remove(tmp_path, pack.LEFT_OUT)
    assert header.exists()


def test_a_release_without_a_package_list_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(pack.PackError, match=r"known: 0\.5\.9"):
        pack.pack_site(tmp_path / "site.tar.xz", "0.4.0")


def test_every_package_of_the_site_is_pinned() -> None:
    lines = (pack.HERE / "site" / "requirements-0.5.9.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert len(wanted) > 40
    assert all("==" in line for line in wanted)


@pytest.mark.parametrize("carried", [True, False])
def test_kernels_that_were_carried_are_loaded_and_only_others_are_stood_in_for(
    tmp_path: Path, carried: bool
) -> None:
    kernels = tmp_path / "sgl_kernel"
    kernels.mkdir()
    (kernels / "__init__.py").write_text("")
    if carried:
        (kernels / "flash_ops.py").write_text("loaded = True\n")
    pack.repair_kernel_package(tmp_path)
    script = "from sgl_kernel import flash_ops, other; print(getattr(flash_ops, 'loaded', False)); other()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(carried)
    assert "NotImplementedError: sgl_kernel.other is not in this build" in done.stderr
