"""A journalctl for tests: prints the entries of a file as the real one would for the asked options.

argv: ENTRIES_FILE, then journalctl's own arguments. Entries are JSON lines with __CURSOR; field matches
are ignored, because the reader must not depend on them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    path, *args = sys.argv[1:]
    lines = Path(path).read_bytes().splitlines()
    if args[:1] == ["--hang"]:
        sys.stdout.buffer.write(lines[0] + b"\n")
        sys.stdout.flush()
        time.sleep(60)

    def cursor(line: bytes) -> str:
        try:
            return str(json.loads(line.decode("utf-8", "replace")).get("__CURSOR"))
        except (ValueError, AttributeError):
            return ""

    if "--cursor" in args:
        wanted = args[args.index("--cursor") + 1]
        places = [i for i, line in enumerate(lines) if cursor(line) == wanted]
        lines = lines[places[0] :] if places else lines
    if "-r" in args:
        lines = lines[::-1]
    if "-n" in args:
        lines = lines[: int(args[args.index("-n") + 1])]
    sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines) or b"-- No entries --\n")


main()
