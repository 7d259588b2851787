"""Carve the FA3 kernels of one GPU type, head size and number format out of the library of them all.

The library (1 GB) is a host ELF file with one CUDA fat binary per source file. What is not kept becomes a
hole: its place and headers stay, so the rest works as before; a kernel in a hole fails when it is first used.
"""

from __future__ import annotations

import mmap
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x50\xed\x55\xba"
CONTAINER = struct.Struct("<4sHHQ")  # magic, version, header bytes, bytes that follow
ENTRY = struct.Struct("<HHIQ")  # kind, version, header bytes, payload bytes
ARCH_AT = 28  # in an entry's header
ELF_HEADER = 64  # stays in a hole, so that it still looks like what its header says

KERNEL = re.compile(rb"\.text\.(_Z[\w$]+)")
MAINLOOP = re.compile(
    r"MainloopFwdSm90<\d+, cute::tuple<.*?> >?, "
    r"cute::tuple<cute::C<\d+>, cute::C<\d+>, cute::C<(\d+)> >, (\d+), cutlass::(\w+), float, [\w:]+, (.*?)>"
)
SOFTCAP = 2  # place among the mainloop's switches


@dataclass(frozen=True)
class Image:
    """One GPU program in the library: its architecture (90) and where its bytes are."""

    arch: int
    offset: int
    size: int


def images(library: mmap.mmap | bytes) -> Iterator[Image]:
    """Every image of every fat binary, in the order of the file."""
    at = 0
    while (at := library.find(MAGIC, at)) >= 0:
        _, version, header, size = CONTAINER.unpack_from(library, at)
        if (version, header) != (1, CONTAINER.size):
            at += len(MAGIC)
            continue
        place, end = at + header, at + header + size
        while place < end:
            _, _, header, payload = ENTRY.unpack_from(library, place)
            (arch,) = struct.unpack_from("<I", library, place + ARCH_AT)
            yield Image(arch, place + header, payload)
            place += header + payload
        at = end


def wanted(kernel: str, heads: frozenset[int], number: str) -> bool:
    """Whether a kernel (demangled name) serves these head sizes in this number format.

    What is not Hopper's attention itself (combining split results, planning) is small: all of it is kept.
    """
    if "FlashAttnFwdSm80" in kernel:
        return False
    found = MAINLOOP.search(kernel)
    if not found:
        return "FlashAttnFwdSm90" not in kernel
    softcap = found[4].split(", ")[SOFTCAP] == "true"
    return int(found[1]) in heads and found[1] == found[2] and found[3] == number and not softcap


def kept(library: mmap.mmap, arch: int, heads: frozenset[int], number: str) -> set[Image]:
    """The images to keep: those of `arch` that hold a wanted kernel."""
    names = {
        i: KERNEL.findall(library[i.offset : i.offset + i.size]) for i in images(library) if i.arch == arch
    }
    flat = [n.decode() for found in names.values() for n in found]
    done = subprocess.run(["c++filt"], input="\n".join(flat), capture_output=True, text=True, check=True)
    plain = dict(zip(flat, done.stdout.splitlines(), strict=True))
    return {
        image
        for image, found in names.items()
        if any(wanted(plain[n.decode()], heads, number) for n in found)
    }


def carve(
    source: Path,
    target: Path,
    arch: int = 90,
    heads: frozenset[int] = frozenset({64, 128}),
    number: str = "bfloat16_t",
) -> int:
    """Write the library with holes; the number of bytes that are left in it. The file's length stays.

    Raises:
        ValueError: no kernel of this kind is in it.
    """
    with source.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as library:
        keep = kept(library, arch, heads, number)
        if not keep:
            raise ValueError(
                f"{source.name} holds no {number} kernels of sm_{arch} for heads of {sorted(heads)}"
            )
        left = len(library)
        with target.open("wb") as out:
            at = 0
            for image in images(library):
                if image in keep or image.size <= ELF_HEADER:
                    continue
                hole = image.offset + ELF_HEADER
                out.write(library[at:hole])
                at = image.offset + image.size
                out.seek(at)
                left -= at - hole
            out.write(library[at:])
            out.truncate(len(library))
    return left
