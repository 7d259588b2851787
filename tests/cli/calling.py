"""Run specctl in this process, as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from specctl.cli.main import main


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


def caller(capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that runs `specctl WORDS`."""

    def run(*words: str) -> Answer:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        out, err = capsys.readouterr()
        return Answer(int(end.value.code or 0), out, err)

    return run


def inventory(path: Path, root: str = "/opt/specctl") -> Path:
    """An inventory of one host, this machine, with one server."""
    server = {"name": "main", "model": "m", "port": 30000}
    host = {"connection": "local", "root": root, "servers": [server]}
    path.write_text(yaml.safe_dump({"hosts": {"here": host}}))
    return path
