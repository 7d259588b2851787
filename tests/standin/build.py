"""Make a distribution folder whose wheel is the stand-in: it installs and starts as SGLang would."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from wheel.wheelfile import WheelFile

from specctl.build.distribution import Distribution, OverlayRecord

from .knobs import BAKED, Knobs

HERE = Path(__file__).parent
WORKERS = {
    "v1": ("sglang/srt/speculative/eagle_worker.py", "EAGLEWorker"),
    "v2": ("sglang/srt/speculative/eagle_worker_v2.py", "EAGLEWorkerV2"),
}
MODULE = "sglang/srt/speculative/dynamic_disable/__init__.py"
LAUNCH = """import sys

from sglang import __version__
from sglang.standin.server import main

if __name__ == "__main__":
    main(sys.argv[1:], __version__)
"""


def make_standin_distribution(folder: Path, version: str = "0.5.9+specctl.1", **knobs: Any) -> Distribution:
    """Write a distribution folder like that of `specctl build`, with a stand-in wheel and empty locks.

    Args:
        folder: made if it is not there.
        version: `BASE+specctl.N`.
        knobs: baked into the wheel, see `Knobs`; `hooks` also decides which worker files count as overlaid.
    """
    checked = Knobs.checked(knobs)
    folder.mkdir(parents=True, exist_ok=True)
    hooks = [h for h in checked.hooks.split(",") if h]
    files = {
        "sglang/__init__.py": f"__version__ = {version!r}\n",
        "sglang/launch_server.py": LAUNCH,
        "sglang/srt/__init__.py": "",
        "sglang/srt/speculative/__init__.py": "",
        MODULE: f"# stand-in for the overlay's module, {version}\n",
        f"sglang/standin/{BAKED}": json.dumps(knobs, sort_keys=True),
    }
    for hook, (path, cls) in WORKERS.items():
        edit = "    dynamic_disable = None\n" if hook in hooks else ""
        files[path] = f"class {cls}:\n{edit}    pass\n"
    files["sglang/bench_serving.py"] = (HERE / "bench_serving.py").read_text(encoding="utf-8")
    for name in ("__init__", "knobs", "engine", "server"):
        files[f"sglang/standin/{name}.py"] = (HERE / f"{name}.py").read_text(encoding="utf-8")
    overlaid = [MODULE, *(WORKERS[h][0] for h in hooks)]
    wheel = write_wheel(folder, version, files)
    for target in ("cuda", "cpu"):
        (folder / f"lock-{target}.txt").write_text("", encoding="utf-8")
    dist = Distribution(
        version=version,
        wheel=wheel.name,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        base_version=version.split("+")[0],
        base_sha256="0" * 64,
        overlays=tuple(OverlayRecord(n, "1" * 64) for n in ("known-faults", "dynamic-disable")),
        files={path: hashlib.sha256(files[path].encode()).hexdigest() for path in overlaid},
        locks={"cuda": "lock-cuda.txt", "cpu": "lock-cpu.txt"},
        tool_version="stand-in",
    )
    dist.write(folder)
    return dist


def write_wheel(folder: Path, version: str, files: dict[str, str], project: str = "sglang") -> Path:
    """A pure-Python wheel of these files with a valid RECORD."""
    path = folder / f"{project}-{version}-py3-none-any.whl"
    path.unlink(missing_ok=True)
    info = f"{project}-{version}.dist-info"
    with WheelFile(path, "w") as wheel:
        for name, text in sorted(files.items()):
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        tags = "Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tags)
    return path
