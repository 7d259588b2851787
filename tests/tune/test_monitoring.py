"""The Prometheus and Grafana examples, against a real Prometheus and the metrics that the overlay exports."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standin.supervised import until

from specctl.config.model import HostConfig, ServerConfig, SshConfig
from specctl.errors import UsageError
from specctl.tune.examples import write_examples
from tune.prometheus import ask, expressions, needs_prometheus, prometheus

ROOT = Path(__file__).parents[2]
TELEMETRY = ROOT / "overlays/dynamic-disable/files/sglang/srt/speculative/dynamic_disable/telemetry.py"
UPSTREAM = {"sglang:num_running_reqs", "sglang:gen_throughput"}  # of SGLang itself
LABELS = '{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0"}'


def exported() -> dict[str, str]:
    """Metric name -> type, as the overlay's source defines them."""
    text = TELEMETRY.read_text()
    gauges = re.findall(r'gauge\("(\w+)"', text)
    counters = re.findall(r'counter\("(\w+)"', text)
    assert gauges
    assert counters
    prefix = "sglang:dynamic_speculation_"
    return {**{prefix + g: "gauge" for g in gauges}, **{prefix + c: "counter" for c in counters}}


class Exporter:
    """/metrics in the shapes that prometheus_client gives it; counters grow with every scrape.

    For whoever asks for OpenMetrics, as Prometheus does, the colon in names becomes an underscore.
    """

    def __init__(self) -> None:
        self.scrapes = 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data, kind = exporter.text(), "text/plain; version=0.0.4"
                if "openmetrics" in (self.headers.get("Accept") or ""):
                    data = data.replace("\nsglang:", "\nsglang_") + "# EOF\n"
                    # of a counter the family has no suffix
                    data = re.sub(r"(# TYPE \S+)_total counter", r"\1 counter", data)
                    data = data.replace("# TYPE sglang:", "# TYPE sglang_")
                    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
                data = data.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def text(self) -> str:
        self.scrapes += 1
        kinds = {**exported(), **dict.fromkeys(UPSTREAM, "gauge")}
        rows = []
        for name, kind in kinds.items():
            value = self.scrapes if kind == "counter" else 1
            rows += [f"# TYPE {name} {kind}", f"{name}{LABELS} {value}"]
        return "\n".join([*rows, ""])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[Path, Exporter]]:
    exporter = Exporter()
    server = ServerConfig("main", "m", exporter.http.server_address[1])
    host = HostConfig("gpu-1", SshConfig("gpu-1"), (server,), connection="local")
    write_examples(tmp_path, [host])
    yield tmp_path, exporter
    exporter.http.shutdown()


def test_an_example_that_was_edited_is_not_written_over(tmp_path: Path) -> None:
    write_examples(tmp_path, [])
    write_examples(tmp_path, [])
    (tmp_path / "alerts.yml").write_text("ours")
    (tmp_path / "targets.json").write_text("[]")
    with pytest.raises(UsageError, match=r"alerts\.yml"):
        write_examples(tmp_path, [HostConfig("gpu-1", SshConfig("gpu-1"), (), connection="local")])
    assert (tmp_path / "alerts.yml").read_text() == "ours"
    assert (tmp_path / "targets.json").read_text() == "[]"


def test_dashboard_and_alerts_name_only_metrics_that_exist(folder: tuple[Path, Exporter]) -> None:
    texts = [*expressions(folder[0]), (folder[0] / "alerts.yml").read_text()]
    named = {name for text in texts for name in re.findall(r"sglang:\w+", text)}
    assert named <= set(exported()) | UPSTREAM
    assert set(exported()) <= named, "a metric of the overlay is on no panel"


def test_the_dashboard_has_what_grafana_needs(folder: tuple[Path, Exporter]) -> None:
    dashboard = json.loads((folder[0] / "grafana-dashboard.json").read_text())
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used <= variables
    spots = {(x, y) for p in dashboard["panels"] for x, y in cells(p["gridPos"])}
    assert len(spots) == sum(p["gridPos"]["w"] * p["gridPos"]["h"] for p in dashboard["panels"]), "overlap"


def test_grafana_knows_every_field_of_the_dashboard(folder: tuple[Path, Exporter]) -> None:
    """No Grafana is started here; its own models must keep what the file says."""
    models = pytest.importorskip(
        "grafana_foundation_sdk.models.dashboard", reason="the test extra's grafana-foundation-sdk is missing"
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()  # the models of panels and of Prometheus queries
    dashboard = json.loads((folder[0] / "grafana-dashboard.json").read_text())
    kept = json.loads(JSONEncoder(sort_keys=True).encode(models.Dashboard.from_json(dashboard)))
    assert list(lost(dashboard, kept)) == []


def lost(told: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Paths of what is in the file and not in what Grafana's models made of it."""
    if isinstance(told, dict) and isinstance(kept, dict):
        for name, value in told.items():
            yield from lost(value, kept[name], f"{path}.{name}") if name in kept else [f"{path}.{name}"]
    elif isinstance(told, list) and isinstance(kept, list) and len(told) == len(kept):
        for i, pair in enumerate(zip(told, kept, strict=True)):
            yield from lost(*pair, f"{path}[{i}]")
    elif told != kept:
        yield path


def cells(pos: dict[str, int]) -> list[tuple[int, int]]:
    rows, columns = range(pos["y"], pos["y"] + pos["h"]), range(pos["x"], pos["x"] + pos["w"])
    return [(x, y) for y in rows for x in columns]


@needs_prometheus
def test_a_real_prometheus_loads_the_configuration_and_every_panel_shows_data(
    folder: tuple[Path, Exporter], tmp_path: Path
) -> None:
    path, exporter = folder
    checked = subprocess.run(
        ["promtool", "check", "config", str(path / "prometheus.yml")], capture_output=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with prometheus(path, tmp_path) as port:
        until(lambda: exporter.scrapes >= 4 and ask(port, "query", query="up == 1"), 60)
        rows = ask(port, "query", query="up")
        assert [(r["metric"]["host"], r["metric"]["server"]) for r in rows] == [("gpu-1", "main")]
        for expression in expressions(path):
            filled = expression.replace("$host", ".*").replace("$server", ".*")
            rows = ask(port, "query", query=filled)
            assert rows, f"no data for {expression}"
            assert all(r["metric"].get("host") == "gpu-1" for r in rows), expression
        rules = ask(port, "rules")["groups"][0]["rules"]
        assert len(rules) == 4
        assert {r["lastError"] for r in rules if r.get("lastError")} == set()


RULES = """
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'sglang:dynamic_speculation_switches_total{host="a", server="s"}', values: '0+30x30'}
      - {series: 'sglang:dynamic_speculation_switches_total{host="b", server="s"}', values: '0+2x30'}
      - {series: 'sglang:dynamic_speculation_accept_length{host="a", server="s"}', values: '1.05x30'}
      - {series: 'sglang:dynamic_speculation_accept_length{host="b", server="s"}', values: '2.5x30'}
      - {series: 'sglang:dynamic_speculation_on_steps_total{host="a", server="s"}', values: '0+100x30'}
      - {series: 'sglang:dynamic_speculation_on_steps_total{host="b", server="s"}', values: '0+100x30'}
      - {series: 'sglang:dynamic_speculation_threshold{host="a", server="s"}', values: '16x30'}
      - {series: 'up{job="sglang", host="a", server="s"}', values: '1x30'}
      - {series: 'up{job="sglang", host="c", server="s"}', values: '1x30'}
    promql_expr_test:
      - expr: count by (alertname, host) (ALERTS{alertstate="firing"})
        eval_time: 25m
        exp_samples:
          - {labels: '{alertname="SpeculationFlapping", host="a"}', value: 1}
          - {labels: '{alertname="SpeculationDraftUseless", host="a"}', value: 1}
          - {labels: '{alertname="SpeculationMetricsMissing", host="c"}', value: 1}
"""


@needs_prometheus
def test_alerts_fire_for_what_is_wrong_and_for_nothing_else(folder: tuple[Path, Exporter]) -> None:
    (folder[0] / "cases.yml").write_text(RULES)
    done = subprocess.run(
        ["promtool", "test", "rules", "cases.yml"], cwd=folder[0], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
