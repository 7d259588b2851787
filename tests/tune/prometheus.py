"""A real Prometheus with the example configuration."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from standin.supervised import free_port

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are not installed (Debian package prometheus)",
)


@contextmanager
def prometheus(examples: Path, folder: Path) -> Iterator[int]:
    """Its port. `examples`: what `specctl watch --examples` wrote; scraped every second, not every five."""
    config = examples / "quick.yml"
    config.write_text((examples / "prometheus.yml").read_text().replace("interval: 5s", "interval: 1s"))
    port = free_port()
    argv = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=examples)
    try:
        yield port
    except BaseException:
        print((folder / "prometheus.log").read_text())
        raise
    finally:
        process.terminate()
        process.wait(30)


def expressions(folder: Path) -> list[str]:
    """The query of every panel of the example dashboard."""
    dashboard = json.loads((folder / "grafana-dashboard.json").read_text())
    return [t["expr"] for p in dashboard["panels"] for t in p["targets"]]


def ask(port: int, what: str, **params: str) -> Any:
    """The answer of Prometheus's API; [] while it is not ready."""
    url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(params)}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            data = json.loads(answer.read())["data"]
    except OSError:
        return []
    return data.get("result", data)
