"""One run of `python -m sglang.bench_serving` from the release's environment, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specctl.config.command import server_env
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.generator import Amount, generator_argv
from specctl.host.protocol import Host
from specctl.service.unit import server_folder, server_python
from specctl.tune.errors import LoadFailed, ThresholdRefused
from specctl.tune.live import Look, access
from specctl.tune.model import Mode, Sample
from specctl.tune.onhost import source
from specctl.tune.prompts import Workload
from specctl.tune.values import Values

SLACK_S = 120.0  # for what a program does around its run


@dataclass(frozen=True)
class Run:
    """One run that is to be made."""

    mode: Mode
    context: str
    level: int
    repetition: int
    requests: int

    @property
    def key(self) -> tuple[str, str, int, int]:
        return (self.mode.value, self.context, self.level, self.repetition)


def bench_argv(
    python: str, url: str, server: ServerConfig, workload: Workload, run: Run, dataset: str
) -> tuple[str, ...]:
    """The generator's command line for a run, but for its output file. The cache is empty at its start."""
    # a seed for each repetition: on and off get the same prompts in the same order
    amount = Amount(run.requests, run.level, workload.output_tokens, seed=1 + run.repetition)
    return generator_argv(python, url, server, dataset, amount, "--warmup-requests", "1", "--flush-cache")


def work_folder(config: HostConfig, server: ServerConfig) -> str:
    """Where data sets and the generator's output lie on the host."""
    return f"{server_folder(config.root, server.name)}/tune"


@dataclass
class Load:
    """The load generator against one server. `before`: values that every run ends with; None: no switch."""

    host: Host
    config: HostConfig
    server: ServerConfig
    before: Values | None
    limit_s: float = 900.0  # of one run

    def prepare(self, workloads: Mapping[str, Workload], requests: int) -> None:
        """Put the data sets on the host."""
        folder = work_folder(self.config, self.server)
        self.host.run(["mkdir", "-p", "--", folder], sudo=self.config.sudo)
        for number, workload in enumerate(workloads.values()):
            self.host.write(
                workload.rows(requests), f"{folder}/prompts-{number}.jsonl", sudo=self.config.sudo
            )

    def run(self, run: Run, workload: Workload, number: int, values: Values | None) -> Sample:
        """Make one run with these values live; afterwards they are `before` again.

        Args:
            number: of the workload's data set, in the order of `prepare`.

        Raises:
            LoadFailed: the generator failed, or did not complete every request.
            ThresholdRefused: the server does not take the values.
        """
        folder = work_folder(self.config, self.server)
        way = access(self.server)
        python = server_python(self.config.root, self.server.name)
        dataset = f"{folder}/prompts-{number}.jsonl"
        params: dict[str, object] = {
            **way,
            "op": "measure",
            "argv": bench_argv(python, str(way["url"]), self.server, workload, run, dataset),
            "env": server_env(self.server),
            "folder": folder,
            "limit_s": self.limit_s,
            "values": values.as_dict() if values else None,
            "before": self.before.as_dict() if self.before else None,
        }
        raw = self.host.script(
            source("switch", "bench"), params, sudo=self.config.sudo, timeout_s=self.limit_s + SLACK_S
        )
        return sample_from(raw if isinstance(raw, dict) else {}, run, self.config.name, self.server.name)

    def restore(self) -> Look:
        """End what is left of a run, and make sure that the values are `before`.

        Raises:
            ThresholdRefused: they are not.
        """
        params = {
            **access(self.server),
            "op": "restore",
            "folder": work_folder(self.config, self.server),
            "before": self.before.as_dict() if self.before else None,
        }
        raw = self.host.script(source("switch", "bench"), params, sudo=self.config.sudo, timeout_s=SLACK_S)
        seen = Look.from_json(raw.get("look") if isinstance(raw, dict) else None)
        if self.before is not None and (seen.values is None or not self.before.agrees(seen.values)):
            raise ThresholdRefused(
                f"{self.server.name} on {self.config.name} could not be put back to {self.before}",
                code="not-restored",
                context={"host": self.config.name, "it has": str(seen.values or seen.error)},
                hint=f"specctl threshold set {self.server.name} {self.before.threshold}"
                f" --hosts {self.config.name}",
            )
        return seen


def sample_from(raw: Mapping[str, Any], run: Run, host: str, server: str) -> Sample:
    """What one run says.

    Raises:
        LoadFailed, ThresholdRefused: as `Load.run`.
    """
    context = {"host": host, "server": server, "run": f"{run.mode.value}, {run.context}, {run.level} at once"}
    if raw.get("refused"):
        raise ThresholdRefused(f"{server} on {host} refuses: {raw['refused']}", context=context)
    result, tail = raw.get("result"), str(raw.get("tail") or "").rstrip()
    context["output"] = "\n".join(tail.splitlines()[-12:]) or "(none)"
    if raw.get("code") != 0 or not isinstance(result, Mapping):
        ended = "did not end in time" if raw.get("code") is None else f"ended with exit code {raw['code']}"
        raise LoadFailed(
            f"sglang.bench_serving {ended}",
            context=context,
            hint="its output says why; is the model's tokenizer readable there, and does the prompt fit?",
        )
    numbers = {k: float(v) for k, v in result.items() if isinstance(v, (int, float))}
    completed = int(numbers.get("completed", 0))
    if completed < run.requests or numbers.get("output_throughput", 0.0) <= 0:
        raise LoadFailed(
            f"only {completed} of {run.requests} requests were answered",
            context=context,
            hint=f"see the server's log: specctl logs --hosts {host} {server}",
        )
    return Sample(
        mode=run.mode,
        context=run.context,
        level=run.level,
        repetition=run.repetition,
        tokens_per_s=numbers["output_throughput"],
        tpot_ms=numbers.get("median_tpot_ms", 0.0),
        itl_p99_ms=numbers.get("p99_itl_ms", 0.0),
        ttft_ms=numbers.get("median_ttft_ms", 0.0),
        completed=completed,
        input_tokens=numbers.get("total_input_tokens", 0.0) / completed,
        output_tokens=numbers.get("total_output_tokens", 0.0) / completed,
        concurrency=numbers.get("concurrency", 0.0),
        accept_length=_accepted(raw.get("counters")),
    )


def _accepted(counters: Any) -> float | None:
    """The accepted length that the server reports after the run; None where no on-step was made in it."""
    if not isinstance(counters, list) or len(counters) != 2:
        return None
    before, after = counters
    made = (after.get("on_steps") or 0) - (before.get("on_steps") or 0)
    value = after.get("accept_length_on")
    return float(value) if made > 0 and isinstance(value, (int, float)) else None
