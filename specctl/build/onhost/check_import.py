"""Import the modules of a distribution and put its server arguments through SGLang's own parser.

Reads one JSON document on stdin: {"modules": [...], "root": FOLDER, "accepts": [[...]], "refuses": [{"args":
[...], "says": "..."}]}; prints one JSON document as its last line. `root` is where sglang must come from.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr
from typing import Any

# The smallest model whose config SGLang reads; it has no weights, and nothing is loaded.
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}


def main() -> None:
    task = json.load(sys.stdin)
    answer: dict[str, Any] = {"problems": [], "flags": [], "checks": 0}
    problems: list[str] = answer["problems"]
    sglang: Any = importlib.import_module("sglang")
    root = os.path.dirname(os.path.dirname(os.path.realpath(sglang.__file__)))
    if root != os.path.realpath(task["root"]):
        problems.append(f"this Python imports sglang from {root}, not from the distribution")
    for name in task["modules"]:
        try:
            importlib.import_module(name)
        except Exception as exc:
            problems.append(f"{name} does not import: {type(exc).__name__}: {exc}")
    if not problems:
        check_arguments(task, answer)
    print(json.dumps(answer))


def check_arguments(task: dict[str, Any], answer: dict[str, Any]) -> None:
    """Fill in the flags of the real parser, and what it said to each command line."""
    server_args: Any = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser(add_help=False)
    server_args.ServerArgs.add_cli_args(parser)
    answer["flags"] = sorted(flag for action in parser._actions for flag in action.option_strings)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(_CONFIG, file)
        common = ["--model-path", folder, "--device", "cpu", "--skip-tokenizer-init"]
        for args in task["accepts"]:
            said = start(server_args, [*common, *args])
            if said is not None:
                answer["problems"].append(f"SGLang refuses {' '.join(args)}: {said}")
        for check in task["refuses"]:
            said = start(server_args, [*common, *check["args"]])
            line = " ".join(check["args"])
            if said is None:
                answer["problems"].append(f"SGLang accepts {line}, which should be refused")
            elif check["says"] not in said:
                answer["problems"].append(f"SGLang refuses {line}, but says: {said}")
    answer["checks"] = len(task["accepts"]) + len(task["refuses"])


def start(server_args: Any, argv: list[str]) -> str | None:
    """What SGLang says against a command line; None when it takes it."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            server_args.prepare_server_args(argv)
    except SystemExit:
        return " ".join(said.getvalue().split()[-40:])
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return None


if __name__ == "__main__":
    main()
