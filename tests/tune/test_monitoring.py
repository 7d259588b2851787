"""The Prometheus and Grafana examples, against a real Prometheus and the metrics that the overlay exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standin.supervised import free_port

from specctl.config.model import HostConfig, ServerConfig, SshConfig
from specctl.tune.examples import write_examples

ROOT = Path(__file__).parents[2]
TELEMETRY = ROOT / "overlays/dynamic-disable/files/sglang/srt/speculative/dynamic_disable/telemetry.py"
UPSTREAM = {"sglang:num_running_reqs", "sglang:gen_throughput"}  # of SGLang itself
LABELS = '{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0"}'

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are not installed (Debian package prometheus)",
)


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
    """/metrics in the shape that prometheus_client gives it; counters grow with every scrape."""

    def __init__(self) -> None:
        self.scrapes = 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = exporter.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
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


def expressions(folder: Path) -> list[str]:
    dashboard = json.loads((folder / "grafana-dashboard.json").read_text())
    return [t["expr"] for p in dashboard["panels"] for t in p["targets"]]


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
    config = path / "quick.yml"  # the same, scraped more often so that the test need not wait
    config.write_text((path / "prometheus.yml").read_text().replace("interval: 5s", "interval: 1s"))
    port = free_port()
    argv = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=path)
    try:
        deadline = time.monotonic() + 60
        while exporter.scrapes < 4 or not ask(port, "query", query="up == 1"):
            assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()
            time.sleep(0.2)
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
    finally:
        process.terminate()
        process.wait(30)


def ask(port: int, what: str, **params: str) -> Any:
    """The answer of Prometheus's API; [] while it is not ready."""
    url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(params)}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            data = json.loads(answer.read())["data"]
    except OSError:
        return []
    return data.get("result", data)


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
