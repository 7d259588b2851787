"""The dashboard's queries, asked of a real Prometheus that scrapes the real patched server."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig.load import drive, make
from rig.plugin import Rig
from rig.server import Spec
from standin.supervised import until

from specctl.config.model import HostConfig, ServerConfig, SshConfig
from specctl.tune.examples import write_examples
from tune.prometheus import ask, expressions, needs_prometheus, prometheus

pytestmark = [pytest.mark.rig, pytest.mark.slow]
LOAD = make(bursts=4, plateau_tokens=60, again=0)


@needs_prometheus
@pytest.mark.parametrize("worker", ["v1", "v2"])
def test_every_panel_shows_what_the_real_server_exports(rig: Rig, tmp_path: Path, worker: str) -> None:
    with rig.serve(Spec(worker, threshold=5, flags=("--enable-metrics",))) as server:
        config = ServerConfig("main", "m", server.client.port)
        host = HostConfig("gpu-1", SshConfig("gpu-1"), (config,), connection="local")
        write_examples(tmp_path / "examples", [host])
        with prometheus(tmp_path / "examples", tmp_path) as port:
            until(lambda: ask(port, "query", query="sglang:dynamic_speculation_threshold"), 60)
            drive(server.client, LOAD)
            server.wait_idle()
            state = server.dynamic()
            assert state["switches"] > 0
            until(lambda: value(port, "sglang:dynamic_speculation_switches_total") > 0, 60)
            until(lambda: value(port, "rate(sglang:dynamic_speculation_off_steps_total[5m])") > 0, 60)
            for expression in expressions(tmp_path / "examples"):
                filled = expression.replace("$host", ".*").replace("$server", ".*")
                rows = ask(port, "query", query=filled)
                assert len(rows) == 1, f"{filled}: {rows}"
                assert rows[0]["metric"] == {"host": "gpu-1", "server": "main"}, filled
                assert float(rows[0]["value"][1]) >= 0, f"{filled}: {rows}"
            assert value(port, "sglang:dynamic_speculation_threshold") == 5
            # published with the decode log line, so the last steps before idling may not be in
            assert value(port, "sglang:dynamic_speculation_off") in (0, 1)


def value(port: int, query: str) -> float:
    """What one series says; -1 while it does not."""
    rows = ask(port, "query", query=query)
    return float(rows[0]["value"][1]) if rows else -1.0
