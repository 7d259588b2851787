"""Ask the real SGLang which worker class command lines select.

Reads a JSON list of {"args": [...], "env": {...}} on stdin; prints a JSON list, in the same order, of
{"worker": name or null, "file": below site-packages or null, "overlap": bool, "error": text or null, ...}.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import types
from contextlib import redirect_stderr
from typing import Any

VARIABLES = ("SGLANG_ENABLE_SPEC_V2", "SGLANG_EMBEDDINGS_SPARSE_HEAD")


def stand_in(name: str, *attributes: str) -> None:
    """A module that only CUDA builds have; NGRAMWorker's file imports it, nothing here calls it."""
    module = types.ModuleType(name)
    for attribute in attributes:
        setattr(module, attribute, None)
    sys.modules[name] = module


def ask(case: dict[str, Any]) -> dict[str, Any]:
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(case["env"])
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            args = prepare_server_args(case["args"])
            args.check_server_args()
        algorithm = SpeculativeAlgorithm.from_string(args.speculative_algorithm)
        worker = None if algorithm.is_none() else algorithm.create_worker(args)
    except SystemExit:
        return {"error": said.getvalue()[-300:]}
    except Exception as exc:
        return {"error": f"{type(exc).__name__}: {exc}"}
    file = None
    if worker is not None:
        file = "sglang/" + inspect.getfile(worker).replace(os.sep, "/").rpartition("/sglang/")[2]
    return {
        "error": None,
        "worker": worker.__name__ if worker else None,
        "file": file,
        "overlap": not args.disable_overlap_schedule,
        "topk": args.speculative_eagle_topk,
        "steps": args.speculative_num_steps,
        "draft_tokens": args.speculative_num_draft_tokens,
        "max_running_requests": args.max_running_requests,
    }


def main() -> None:
    stand_in("sgl_kernel.speculative", "reconstruct_indices_from_tree_mask")
    stand_in("sglang.srt.speculative.cpp_ngram.ngram_cache", "NgramCache")
    cases = json.load(sys.stdin)
    import sglang.srt.server_args  # noqa: F401  (its warnings go where they belong, to stderr)

    print(json.dumps([ask(case) for case in cases]))


if __name__ == "__main__":
    main()
