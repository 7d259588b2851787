"""Print the server arguments of the SGLang that this Python imports, as specctl/route/data/ holds them.

Run it with an interpreter that has SGLang and its dependencies; `test_options_match_the_real_parser` does.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def describe(action: argparse.Action) -> dict[str, Any]:
    """One option: its flags, and what is needed to split a command line and to judge its values."""
    entry: dict[str, Any] = {"flags": list(action.option_strings)}
    if action.dest != action.option_strings[0].lstrip("-").replace("-", "_"):
        entry["dest"] = action.dest
    if action.nargs is not None:
        entry["nargs"] = action.nargs
    if isinstance(action, argparse._StoreTrueAction):
        entry["switch"] = True
    if action.type in (int, float):
        entry["type"] = action.type.__name__
    if action.choices is not None:
        entry["choices"] = sorted(str(choice) for choice in action.choices)
    if action.required:
        entry["required"] = True
    return entry


def main() -> None:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(add_help=False)
    ServerArgs.add_cli_args(parser)
    entries = [describe(action) for action in parser._actions]
    lines = ",\n".join(json.dumps(entry) for entry in sorted(entries, key=lambda e: e["flags"]))
    sys.stdout.write(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
