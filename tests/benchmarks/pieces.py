"""Pieces of runs, made up."""

from __future__ import annotations

from typing import Any


def seen(tok_s: float, decode: float | None = None) -> dict[str, Any]:
    return {"tok_s": tok_s, "decode_tok_s": decode, "graph_share": 1.0}


def level(concurrency: int, rep: int, **tok_s: float) -> dict[str, Any]:
    servers = {name.replace("_", "-"): seen(x, x * 1.2) for name, x in tok_s.items()}
    return {
        "id": f"c{concurrency}-r{rep}",
        "kind": "level",
        "concurrency": concurrency,
        "prompt": 256,
        "output": 128,
        "rep": rep,
        "servers": servers,
    }


def piece(*blocks: dict[str, Any], experiment: str = "levels", **changes: Any) -> dict[str, Any]:
    setup = {
        "thresholds": {"v1": 16, "v2": 32},
        "accept_length": 2.5,
        "algorithm": "EAGLE3",
        "backend": "triton",
    }
    return {
        "experiment": experiment,
        "fingerprint": "a",
        "date": "2026-11-29",
        "release": "0.5.9+specctl.1",
        "gpu": "NVIDIA H200",
        "setup": setup,
        "errors": [],
        "blocks": list(blocks),
        **changes,
    }
