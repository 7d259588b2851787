"""Pack SGLang for a GPU machine that has PyTorch and no internet.

Archives that unpack into one folder: `site.tar.xz` (what the server imports, slow to make, the same for every
build of one release), `sglang.tar.xz` (the package under test, seconds to make again after an edit) and, if
wanted, `fa3.tar.xz` (the FA3 attention kernels of one GPU type).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from benchmarks.kernels import carve

HERE = Path(__file__).resolve().parent
LIMIT_BYTES = 60_000_000
FA3 = "flash_ops.abi3.so"
NUMA = Path("/usr/lib/x86_64-linux-gnu/libnuma.so.1")

# Kernels of other GPUs and of attention backends that are not measured (1 GB), and what builds need; but for
# flashinfer's sources and CUTLASS's headers, from which flashinfer compiles its kernels on the machine.
LEFT_OUT = (
    "bin",
    "include",
    "lib/*mscclpp*",
    "_mscclpp*",
    "sgl_kernel/flash_ops*",
    "sgl_kernel/flashmla_ops*",
    "sgl_kernel/sm100",
    "sgl_kernel/infllm*",
    "flashinfer/data/cutlass/python",
    "flashinfer/data/cutlass/examples",
    "flashinfer/data/cutlass/test",
    "xgrammar/lib/*.a",
    "*.dist-info/licenses",
)
SGLANG_LEFT_OUT = ("multimodal_gen", "test")

# A kernel package of another release misses some names that this one imports at module level.
MISSING_NAMES = '''

def __getattr__(name):
    """Names that this build of the kernels lacks: importing them is fine, calling them is not."""
    import importlib.util

    # `from sgl_kernel import X` asks for the attribute first: a submodule must not be answered for
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} is not in this build")

    return missing
'''


class PackError(Exception):
    """The archive cannot be made; the message says what to do."""


def install_argv(uv: str, requirements: Path, site: Path) -> list[str]:
    """Argv that installs the pinned packages for the GPU machine's Python and platform into `site`."""
    return [
        uv,
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--link-mode",
        "copy",
        "--python-version",
        "3.12",
        "--python-platform",
        "x86_64-manylinux_2_34",
        "--target",
        str(site),
        "-r",
        str(requirements),
    ]


def find_uv() -> str:
    """The uv program beside this Python, else on PATH.

    Raises:
        PackError: there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise PackError("uv is missing: pip install uv")
    return found


def remove(site: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def repair_kernel_package(site: Path) -> None:
    """Let `import sgl_kernel` work without the kernels that were left out or that this build never had."""
    init = site / "sgl_kernel" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    start = text.find("    from sgl_kernel.infllm_v2 import (")
    if start >= 0:
        text = text[:start] + text[text.index(")\n", start) + 2 :]
    init.write_text(text + MISSING_NAMES, encoding="utf-8")


def add_stand_ins(site: Path) -> None:
    """Put in the modules that the packed server imports but does not use, and libnuma."""
    notebook = site / "IPython"
    notebook.mkdir(exist_ok=True)
    (notebook / "__init__.py").write_text("")
    (notebook / "display.py").write_text("HTML = display = None\n")
    shutil.copy(HERE / "site" / "absent.py", site / "sitecustomize.py")
    if not NUMA.exists():
        raise PackError(f"{NUMA} is missing, and the kernel package links it: apt-get install libnuma1")
    (site / "native").mkdir(exist_ok=True)
    shutil.copy(NUMA.resolve(), site / "native" / NUMA.name)


def strip_libraries(site: Path) -> None:
    strip = shutil.which("strip")
    for library in site.rglob("*.so*"):
        if strip and library.is_file() and library.stat().st_size > 200_000:
            subprocess.run([strip, "--strip-unneeded", str(library)], check=False, stderr=subprocess.DEVNULL)


def compress(parent: Path, out: Path, level: int) -> int:
    """Write PARENT/site as a .tar.xz; the number of bytes. The same content gives the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    same = ("--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--sparse")
    tar = ["tar", "-C", str(parent), *same, "-cf", "-", "site"]
    with out.open("wb") as f, subprocess.Popen(tar, stdout=subprocess.PIPE) as reader:
        subprocess.run(["xz", "-T0", f"-{level}"], stdin=reader.stdout, stdout=f, check=True)
    if reader.returncode:
        raise PackError(f"tar ended with {reader.returncode}")
    return out.stat().st_size


def pack_fa3(site: Path, out: Path) -> int:
    """Make fa3.tar.xz from an installed site; the number of bytes."""
    with tempfile.TemporaryDirectory(dir=site.parent) as tmp:
        target = Path(tmp) / "site" / "sgl_kernel" / FA3
        target.parent.mkdir(parents=True)
        carve(site / "sgl_kernel" / FA3, target)
        return compress(Path(tmp), out, level=6)


def pack_site(out: Path, release: str, fa3: bool = False, scratch: Path | None = None) -> int:
    """Make site.tar.xz for one release, and fa3.tar.xz beside it if wanted; the number of bytes of the first.

    Raises:
        PackError: no requirements are known for the release, or a tool is missing, or an install failed.
    """
    requirements = HERE / "site" / f"requirements-{release}.txt"
    if not requirements.exists():
        known = ", ".join(
            sorted(p.stem.removeprefix("requirements-") for p in requirements.parent.glob("*.txt"))
        )
        raise PackError(f"no packages are listed for {release}; known: {known}")
    with tempfile.TemporaryDirectory(dir=scratch) as tmp:
        site = Path(tmp) / "site"
        done = subprocess.run(
            install_argv(find_uv(), requirements, site), stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise PackError(f"uv ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        if fa3:
            print(f"fa3.tar.xz     {pack_fa3(site, out.with_name('fa3.tar.xz')) / 1e6:6.1f} MB")
        remove(site, LEFT_OUT)
        repair_kernel_package(site)
        add_stand_ins(site)
        strip_libraries(site)
        return compress(Path(tmp), out, level=6)


def find_package(source: Path, tmp: Path) -> Path:
    """The folder that holds `sglang/`: a tree, a wheel, or a distribution folder with one sglang wheel.

    Raises:
        PackError: the source is none of these.
    """
    if (source / "sglang" / "srt").is_dir():
        return source
    wheels = [source] if source.suffix == ".whl" else sorted(source.glob("sglang-*.whl"))
    if len(wheels) != 1:
        raise PackError(f"{source} is no sglang wheel, no folder with one, and no folder with sglang/ in it")
    with zipfile.ZipFile(wheels[0]) as z:
        z.extractall(tmp / "wheel")
    return tmp / "wheel"


def pack_sglang(source: Path, out: Path, scratch: Path | None = None) -> int:
    """Make sglang.tar.xz from a wheel, a distribution folder or a tree; the number of bytes."""
    with tempfile.TemporaryDirectory(dir=scratch) as tmp:
        found = find_package(source, Path(tmp))
        site = Path(tmp) / "out" / "site"
        skip = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(found / "sglang", site / "sglang", ignore=skip)
        for info in found.glob("sglang-*.dist-info"):
            shutil.copytree(info, site / info.name)
        remove(site / "sglang", SGLANG_LEFT_OUT)
        return compress(site.parent, out, level=3)


def pack(out: Path, release: str, source: Path | None, site: bool, fa3: bool = False) -> None:
    """Make the archives in the folder `out` and say how large they are.

    Raises:
        PackError: see above, or together they are larger than LIMIT_BYTES.
    """
    if site:
        print(f"site.tar.xz    {pack_site(out / 'site.tar.xz', release, fa3) / 1e6:6.1f} MB")
    if source:
        print(f"sglang.tar.xz  {pack_sglang(source, out / 'sglang.tar.xz') / 1e6:6.1f} MB")
    total = sum(p.stat().st_size for p in out.glob("*.tar.xz"))
    if total > LIMIT_BYTES:
        raise PackError(f"the archives are {total / 1e6:.1f} MB together, more than {LIMIT_BYTES / 1e6:.0f}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run.py pack", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the archives")
    parser.add_argument("--release", default="0.5.9")
    parser.add_argument("--sglang", type=Path, help="wheel, distribution folder, or tree that holds sglang/")
    parser.add_argument("--fa3", action="store_true", help="also pack Hopper's FA3 attention kernels (10 MB)")
    parser.add_argument("--no-site", dest="site", action="store_false", help="only the sglang archive")
    args = parser.parse_args(argv)
    try:
        pack(args.out, args.release, args.sglang, args.site, args.fa3)
    except PackError as exc:
        print(f"pack: {exc}", file=sys.stderr)
        return 1
    return 0
