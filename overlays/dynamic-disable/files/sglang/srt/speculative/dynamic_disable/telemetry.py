"""What an operator sees of the switch, and how the thresholds are changed while serving."""

from __future__ import annotations

import dataclasses
import logging

from sglang.srt.speculative.dynamic_disable import settings as settings_module

logger = logging.getLogger(__name__)

REFUSED = "dynamic_speculation_refused"  # key under which a refusal travels back to the HTTP process


def accept_length(scheduler):
    """Tokens that one speculative step gives a request, since the counters were last reset; None: no step yet."""
    steps = scheduler.spec_total_num_forward_ct + scheduler.spec_num_forward_ct
    if not steps:
        return None
    return (scheduler.spec_total_num_accepted_tokens + scheduler.spec_num_accepted_tokens) / steps


def state(controller, scheduler) -> dict:
    """The value of `dynamic_speculation` in /server_info."""
    switch, rebuild = controller.switch, controller.rebuild
    return {
        "worker": type(controller.worker).__name__,
        "state": "off" if switch.off else "on",
        "batch": switch.batch,
        **dataclasses.asdict(switch.settings),
        "switches": switch.switches,
        "on_steps": switch.on_steps,
        "off_steps": switch.off_steps,
        "accept_length_on": accept_length(scheduler),
        "decode_graphs": controller.has_graphs,
        "flushes": rebuild.runs,
        "flushed_tokens": rebuild.tokens,
    }


class _Metrics:
    """Prometheus metrics, made once for a scheduler process."""

    def __init__(self, labels: dict):
        # imported here: SGLang sets PROMETHEUS_MULTIPROC_DIR first
        from prometheus_client import Counter, Gauge

        def gauge(name, text):
            return Gauge(
                f"sglang:dynamic_speculation_{name}", text, labelnames=list(labels), multiprocess_mode="mostrecent"
            ).labels(**labels)

        def counter(name, text):
            return Counter(f"sglang:dynamic_speculation_{name}", text, labelnames=list(labels)).labels(**labels)

        self.off = gauge("off", "1 while speculation is switched off by batch size, else 0.")
        self.threshold = gauge("threshold", "Speculation is off while the decode batch is larger.")
        self.resume = gauge("resume_threshold", "Speculation resumes at this decode batch or below.")
        self.accept_length = gauge("accept_length", "Mean accepted length over speculative steps; 0: none yet.")
        self.counters = {
            "switches": counter("switches_total", "Times speculation was switched off or on."),
            "on_steps": counter("on_steps_total", "Decode steps with speculation."),
            "off_steps": counter("off_steps_total", "Decode steps without speculation."),
        }
        self._seen = dict.fromkeys(self.counters, 0)

    def update(self, switch, accepted) -> None:
        self.off.set(int(switch.off))
        self.threshold.set(switch.settings.threshold)
        self.resume.set(switch.settings.resume)
        self.accept_length.set(accepted or 0)
        for name, metric in self.counters.items():
            value = getattr(switch, name)
            metric.inc(value - self._seen[name])
            self._seen[name] = value


def publish(controller, scheduler) -> None:
    """Set the Prometheus metrics; the collector's own labels are used."""
    if getattr(controller, "metrics", None) is None:
        controller.metrics = _Metrics(scheduler.metrics_collector.labels)
    controller.metrics.update(controller.switch, accept_length(scheduler))


def change_settings(controller, server_args: dict, scheduler):
    """Change thresholds between two steps. Requests reach all ranks in the same order, so all change at once.

    Returns:
        None when `server_args` names none of our settings, else (updated, server_args) of the answer; a
        refusal carries its reason under REFUSED.
    """
    from sglang.srt.server_args import get_global_server_args

    ours = {name: server_args[name] for name in settings_module.LIVE if name in server_args}
    if not ours:
        return None
    try:
        new = _checked(controller, ours, set(server_args) - set(ours))
    except ValueError as exc:
        logger.warning(f"Dynamic speculation: settings not changed. {exc}")
        return False, {REFUSED: str(exc)}
    old = controller.switch.settings
    controller.switch.settings = new
    logger.info(
        f"Dynamic speculation: threshold {old.threshold} -> {new.threshold}, resume {old.resume} -> {new.resume}, "
        f"resume_steps {old.resume_steps} -> {new.resume_steps}"
    )
    values = (new.threshold, new.resume, new.resume_steps)
    changed = dict(zip(settings_module.LIVE, values))
    for name, value in changed.items():
        setattr(get_global_server_args(), name, value)
    if scheduler.enable_metrics:
        publish(controller, scheduler)
    return True, changed


def _checked(controller, ours: dict, others: set):
    if controller is None:
        raise ValueError(f"This server was started without {settings_module.flag(settings_module.THRESHOLD)}.")
    if others:
        raise ValueError(f"Cannot be changed together with {', '.join(sorted(others))}.")
    old = controller.switch.settings
    threshold = ours.get(settings_module.THRESHOLD, old.threshold)
    resume = ours.get(settings_module.RESUME)
    if resume is None and threshold == old.threshold:
        resume = old.resume
    steps = ours.get(settings_module.RESUME_STEPS, old.resume_steps)
    new = settings_module.resolve(threshold, resume, steps, old.draft_sync)
    settings_module.check_reachable(new.threshold, controller.limit, "the limit this server started with")
    return new


def raise_if_refused(answers) -> None:
    """In the HTTP process: turn a scheduler's refusal into a 400 with its reason.

    Raises:
        fastapi.HTTPException: a scheduler refused the change.
    """
    reasons = [a.server_args[REFUSED] for a in answers if not a.updated and REFUSED in a.server_args]
    if reasons:
        from fastapi import HTTPException

        raise HTTPException(status_code=400, detail=reasons[0])
