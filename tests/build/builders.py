"""A small overlay over a small sglang, pinned by `specctl overlay pin` itself."""

from __future__ import annotations

import zipfile
from pathlib import Path

import yaml
from base.builders import SERVER_ARGS

from specctl.overlay import OverlayStore
from specctl.overlay.pin import pin

FLAG = "--speculative-disable-batch-threshold"
MODULE = "sglang/srt/speculative/dynamic_disable/__init__.py"
MODULE_TEXT = """def add(parser):
    parser.add_argument("--speculative-disable-batch-threshold", type=int)


def check(args):
    if (args.speculative_disable_batch_threshold or 0) < 0:
        raise ValueError("must be 0 or more")
"""
EDITED = SERVER_ARGS.replace(
    """        parser.add_argument("--speculative-algorithm")
""",
    """        parser.add_argument("--speculative-algorithm")
        from sglang.srt.speculative import dynamic_disable

        dynamic_disable.add(parser)
""",
).replace(
    """    def check(self):
""",
    """    def check(self):
        from sglang.srt.speculative import dynamic_disable

        dynamic_disable.check(self)
""",
)
CHECKS = {
    "flags": [FLAG],
    "accepts": [[], [FLAG, 16]],
    "refuses": [
        {"args": [FLAG, -1], "says": "must be 0 or more"},
        {"args": [FLAG, "many"], "says": "invalid int value"},
        {"args": ["--speculative-algorithm", "NGRAM"], "says": "no NGRAM"},
    ],
}


def make_overlays(
    folder: Path,
    wheel: Path,
    *,
    module: str = MODULE_TEXT,
    edited: str = EDITED,
    checks: dict[str, object] | None = None,
) -> OverlayStore:
    """A store with the one overlay `small`, pinned to the wheel as 0.5.9."""
    overlay = folder / "small"
    (overlay / "files" / MODULE).parent.mkdir(parents=True)
    (overlay / "files" / MODULE).write_text(module)
    manifest = {
        "name": "small",
        "summary": "adds a flag",
        "reason": "tests need one",
        "order": 10,
        "upstream": {"status": "ours"},
    }
    (overlay / "overlay.yaml").write_text(yaml.safe_dump(manifest))
    if checks is not None:
        (overlay / "checks.yaml").write_text(yaml.safe_dump(checks))
    trees = folder.parent / f"{folder.name}-trees"
    for name in ("base", "edited"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(trees / name)
    (trees / "edited" / "sglang/srt/server_args.py").write_text(edited)
    pin(overlay, trees / "base", trees / "edited", base="0.5.9")
    return OverlayStore(folder)
