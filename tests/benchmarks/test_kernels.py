"""Carving keeps what is asked for, byte for byte, and leaves everything else in its place."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from benchmarks import kernels

needs_cxxfilt = pytest.mark.skipif(not shutil.which("c++filt"), reason="kernel names need c++filt")


def mainloop(head: int, number: str = "bfloat16_t", softcap: bool = False, value: int | None = None) -> str:
    tile = f"cute::tuple<cute::C<128>, cute::C<176>, cute::C<{head}> >"
    flags = ", ".join(str(x).lower() for x in (True, False, softcap, True, False))
    return (
        "void device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, "
        f"cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, {tile}, {value or head}, cutlass::{number}, "
        f"float, cutlass::arch::Sm90, {flags}>, flash::CollectiveEpilogueFwd<> > >"
    )


@pytest.mark.parametrize(
    ("kernel", "kept"),
    [
        (mainloop(128), True),
        (mainloop(64), True),
        (mainloop(256), False),
        (mainloop(64, value=512), False),
        (mainloop(128, "half_t"), False),
        (mainloop(128, softcap=True), False),
        ("void device_kernel<flash::FlashAttnFwdSm80<...>>", False),
        ("void flash::prepare_varlen_num_blocks_kernel<8, true>(int)", True),
        ("void device_kernel<flash::FlashAttnFwdCombine<...>>", True),
    ],
)
def test_only_the_measured_heads_and_format_travel(kernel: str, kept: bool) -> None:
    assert kernels.wanted(kernel, frozenset({64, 128}), "bfloat16_t") is kept


def fat_binary(*programs: tuple[int, bytes]) -> bytes:
    body = b""
    for arch, payload in programs:
        header = kernels.ENTRY.pack(2, 257, 64, len(payload)).ljust(kernels.ARCH_AT, b"\0") + struct.pack(
            "<I", arch
        )
        body += header.ljust(64, b"\0") + payload
    return kernels.CONTAINER.pack(kernels.MAGIC, 1, 16, len(body)) + body


def program(name: str, size: int = 50_000) -> bytes:
    return (b"\x7fELF".ljust(80, b"h") + b".text." + name.encode() + b"\0").ljust(size, b"c")


@needs_cxxfilt
def test_other_gpus_become_holes_and_the_rest_stays_where_it_was(tmp_path: Path) -> None:
    keep = program("_Z7combinev")
    library = b"host code" + fat_binary((90, keep), (80, program("_Z7combinev")))
    library += fat_binary((90, program("_Z16FlashAttnFwdSm80v"))) + b"the end"
    source, target = tmp_path / "a.so", tmp_path / "b.so"
    source.write_bytes(library)
    left = kernels.carve(source, target)
    carved = target.read_bytes()
    assert len(carved) == len(library)
    assert left == len(library) - 2 * (50_000 - kernels.ELF_HEADER)
    assert carved.startswith(library[: library.index(keep) + len(keep)])
    assert carved.endswith(b"the end")
    assert carved.count(b"\x7fELF") == 3, "every image still looks like a program"
    assert carved.count(b"_Z7combinev") == 1


@needs_cxxfilt
def test_a_library_without_the_kernels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(fat_binary((80, program("_Z7combinev"))))
    with pytest.raises(ValueError, match="no bfloat16_t kernels of sm_90"):
        kernels.carve(tmp_path / "a.so", tmp_path / "b.so")
