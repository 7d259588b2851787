"""Rules about one server's arguments: known traps of SGLang, seen before anything is started. Pure.

The numbers are issues of SGLang in which people met the trap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specctl.config import arguments
from specctl.config.arguments import LaunchFlag
from specctl.config.model import HostConfig, ServerConfig, Target
from specctl.doctor.machine import busy_gpus
from specctl.doctor.model import Check, fail, ok, present, size, warn
from specctl.host.facts import Facts, GpuFact, draft_of
from specctl.route.model import Route

REPAIRS = "known-faults"  # the overlay that repairs faults of a base
_GRAPHS_MIB = 2048  # what the draft's decode graphs take, as SGLang 0.5.9 itself reckons
_SHORT_START_S = 300.0
_ATTENTION = ("--attention-backend", "--decode-attention-backend", "--prefill-attention-backend")
_FRACTION = "--mem-fraction-static"


@dataclass(frozen=True)
class Case:
    """One server, with everything the rules look at."""

    host: HostConfig
    server: ServerConfig
    facts: Facts
    route: Route

    @property
    def gpus(self) -> tuple[GpuFact, ...]:
        """The GPUs that the server would use."""
        wanted = self.server.gpus
        return tuple(gpu for gpu in self.facts.gpus or () if not wanted or gpu.index in wanted)

    def value(self, *flags: str) -> str | None:
        """The value of the first of some arguments that is given."""
        for flag in flags:
            given = arguments.find(self.server.args, LaunchFlag((flag,), (flag,)))
            if given is not None:
                return given.value
        return None

    def ok(self, name: str, seen: str) -> Check:
        return ok(name, seen, server=self.server.name)

    def warn(self, name: str, seen: str, hint: str) -> Check:
        return warn(name, seen, hint, server=self.server.name)

    def fail(self, name: str, seen: str, hint: str) -> Check:
        return fail(name, seen, hint, server=self.server.name)


def check_server(host: HostConfig, server: ServerConfig, facts: Facts, route: Route) -> list[Check]:
    """Everything about one server."""
    case = Case(host, server, facts, route)
    return present(
        [
            *_route(case),
            _limit(case),
            _logprobs(case),
            *_models(case),
            _draft_kind(case),
            _gpu_list(case),
            _attention(case),
            _memory(case),
            _start_time(case),
            _port(case),
        ]
    )


def _route(case: Case) -> list[Check]:
    """13352, 14077: topk above 1 on V2, and whatever else the release refuses."""
    route = case.route
    if route.problems:
        return [
            case.fail("route", problem, "the server would not start: change args or env")
            for problem in route.problems
        ]
    seen = (
        f"{route.worker} ({'overlap' if route.overlap else 'no overlap'})"
        if route.worker
        else "no speculation"
    )
    # the limit has a check of its own
    doubts = [text for text in route.warnings if arguments.MAX_RUNNING.name not in text]
    return [
        case.ok("route", f"{seen}: {route.reasons[-1]}" if route.reasons else seen),
        *(case.warn("route", text, "check that this is meant") for text in doubts),
    ]


def _limit(case: Case) -> Check | None:
    """34290, 33199: with speculation and no limit of its own, a server runs at most 48 requests."""
    limit, policy = case.route.max_running_requests, case.server.threshold
    own = arguments.find(case.server.args, arguments.MAX_RUNNING) is not None
    hint = "add --max-running-requests N to args"
    if policy is not None and limit is not None and policy.disable >= limit:
        seen = f"a threshold of {policy.disable} never fires: at most {limit} requests run"
        return case.fail("request-limit", seen, f"{hint}, above {policy.disable}")
    if limit is not None and not own and case.route.worker is not None:
        return case.warn(
            "request-limit", f"SGLang limits the server to {limit} requests with speculation", hint
        )
    return case.ok("request-limit", f"at most {limit} requests run") if limit is not None else None


def _logprobs(case: Case) -> Check | None:
    """17349: on 0.5.9, one request with return_logprob ends a V2 server that runs EAGLE3."""
    if case.route.worker != "EAGLEWorkerV2" or case.route.algorithm != "EAGLE3" or case.host.base != "0.5.9":
        return None
    if REPAIRS in case.host.overlays:
        return case.ok("logprobs", f"the overlay {REPAIRS} repairs return_logprob with EAGLE3 on V2")
    return case.fail(
        "logprobs",
        "one request with return_logprob ends this server (EAGLE3 on EAGLEWorkerV2)",
        f"add {REPAIRS} to overlays, or leave SGLANG_ENABLE_SPEC_V2 unset",
    )


# -- models


def _models(case: Case) -> list[Check | None]:
    draft = draft_of(case.server)
    checks = [_model(case, "model", case.server.model), _model(case, "draft", draft) if draft else None]
    if draft is None and case.route.algorithm == "EAGLE3":  # 36528
        seen = "EAGLE3 without a draft model: the target would be loaded again as its own draft"
        checks.append(case.fail("draft", seen, "add --speculative-draft-model-path"))
    return checks


def _model(case: Case, name: str, path: str) -> Check:
    model = case.facts.model(path)
    if model is not None and model.found:
        what = ", ".join(model.architectures) or "no architecture in its config.json"
        return case.ok(name, f"{path}: {what}{f', {size(model.bytes)}' if model.bytes else ''}")
    if path.startswith(("/", ".", "~")):
        return case.fail(name, f"{path} is not on the host", "copy the model there, or correct the path")
    return case.warn(
        name, f"{path} is not in the host's cache", "the first start has to download it: fetch it before"
    )


def _draft_kind(case: Case) -> Check | None:
    """21272: with EAGLE and a draft made for EAGLE3 nothing is ever accepted, and nothing says so."""
    model = case.facts.model(draft_of(case.server))
    algorithm = case.route.algorithm
    if model is None or not model.architectures or algorithm not in ("EAGLE", "EAGLE3"):
        return None
    made_for_3 = any("eagle3" in name.lower() for name in model.architectures)
    names = ", ".join(model.architectures)
    if algorithm == "EAGLE" and made_for_3:
        seen = f"the draft is a {names}, made for EAGLE3; with EAGLE none of its tokens are accepted"
        return case.fail("draft-kind", seen, "--speculative-algorithm EAGLE3")
    if algorithm == "EAGLE3" and not made_for_3:
        seen = f"the draft is a {names}, which does not look like one for EAGLE3"
        return case.warn("draft-kind", seen, "is it a draft for EAGLE? then --speculative-algorithm EAGLE")
    return case.ok("draft-kind", f"{names} fits {algorithm}")


# -- GPUs


def _gpu_list(case: Case) -> Check | None:
    if case.host.target is Target.CPU or case.facts.gpus is None:
        return None
    there = {gpu.index for gpu in case.facts.gpus}
    missing = [str(index) for index in case.server.gpus if index not in there]
    if missing:
        return case.fail(
            "gpus", f"no GPU {', '.join(missing)} on the host", f"it has {sorted(there)}: correct gpus:"
        )
    busy = busy_gpus(case.facts, case.server.gpus)
    running = any(s.name == case.server.name and s.current for s in case.facts.servers)
    if busy and not running:
        return case.warn("gpus", "; ".join(busy), "stop what uses them before the first deploy: nvidia-smi")
    return None


def _attention(case: Case) -> Check | None:
    """15122: the choice of an attention backend on Blackwell goes by tables that do not know every GPU."""
    chosen = case.value(*_ATTENTION)
    for gpu in case.gpus:
        major = int((gpu.compute or "0").split(".")[0])
        if chosen == "fa3" and major not in (0, 8, 9):
            seen = f"fa3 does not run on {gpu.name} (compute {gpu.compute})"
            return case.fail("attention", seen, "--attention-backend flashinfer or triton")
        if chosen == "trtllm_mha" and major not in (0, 10):
            seen = f"trtllm_mha runs on compute 10 only; {gpu.name} has {gpu.compute}"
            return case.fail("attention", seen, "--attention-backend flashinfer or triton")
        if chosen is None and major >= 10:
            seen = f"{gpu.name} (compute {gpu.compute}), and no attention backend is named"
            return case.warn(
                "attention", seen, "name the one you measured: --attention-backend flashinfer or triton"
            )
    return None


def _memory(case: Case) -> Check | None:
    """6875: the memory fraction counts the target's weights and KV; the draft comes on top."""
    fraction, draft = case.value(_FRACTION), case.facts.model(draft_of(case.server))
    sizes = [gpu.memory_mib for gpu in case.gpus if gpu.memory_mib]
    if fraction is None or case.route.worker is None or not sizes:
        return None
    ranks = int(case.value(*arguments.TP_SIZE.spellings) or 1)
    weights = (draft.bytes or 0) / (1 << 20) / max(ranks, 1) if draft else 0.0
    left, needed = min(sizes) * (1 - float(fraction)), weights + _GRAPHS_MIB
    seen = f"{_FRACTION} {fraction} leaves {left:.0f} MiB; draft and its graphs take about {needed:.0f} MiB"
    if left < needed:
        return case.warn(
            "memory", seen, f"lower it to {1 - needed / min(sizes) - 0.02:.2f}, or leave it to SGLang"
        )
    return case.ok("memory", seen)


# -- starting


def _start_time(case: Case) -> Check | None:
    """3395, 10088: capturing graphs and compiling kernels make a first start slow."""
    start = case.server.timers.start_s
    if case.host.target is Target.CPU or start >= _SHORT_START_S:
        return None
    seen = f"{start:.0f} s from restart to healthy; a first start compiles kernels and captures graphs"
    return case.warn("start-time", seen, "timers: {start_s: 900}")


def _port(case: Case) -> Check | None:
    """Somebody else's listener; our own server's is expected."""
    known: Mapping[str, str | None] = {s.name: s.current for s in case.facts.servers}
    if case.server.port in case.facts.ports and not known.get(case.server.name):
        seen = f"something listens on port {case.server.port} already"
        return case.fail("port", seen, "stop it, or choose another port")
    return None
