"""Dynamic speculation disable: plain decoding while the running batch is large, speculation when it is small.

While the decode batch is larger than a threshold, the EAGLE workers run a plain DECODE step of the target
model instead of draft, verify and draft-extend. This package holds all of the logic; the files of SGLang
itself only call the functions of this module, which imports nothing of SGLang until the flag is set.

    settings    the flags, their defaults and their checks
    switch      when speculation is off: two thresholds and a dwell
    pending     the (hidden state, token) pairs that the draft model has not seen yet
    rebuild     the draft model's KV cache brought up to date from them, in one pass
    graphs      CUDA graphs of the plain decode step
    controller  one per worker: the above, put together
    step_v1     the plain step under EAGLEWorker;  step_v2: under EAGLEWorkerV2
    in_flight   under EAGLEWorker: a launched step whose tokens the host does not have yet
    create      the controller that fits a worker, and the marker
    telemetry   /server_info, Prometheus and the change of thresholds while serving
"""

from __future__ import annotations

_controller = None  # of this scheduler process; None: the flag is not set


def attach(worker, draft_runner):
    """Make the controller of `worker`, at the end of its `__init__`; None when the flag is not set."""
    global _controller
    _controller = None
    if worker.server_args.speculative_disable_batch_threshold is not None:
        from sglang.srt.speculative.dynamic_disable.create import create

        _controller = create(worker, draft_runner)
    return _controller


def active():
    """The controller of this scheduler process, or None."""
    return _controller


def prepare_decode(batch):
    """EAGLEWorkerV2 only: called on the scheduler's stream once the KV slots of a decode step are allocated."""
    if _controller is not None:
        _controller.prepare_decode(batch)


def known_sum(batch):
    """The sum of `batch.seq_lens` from the host's copy while a plain step is in flight, else None.

    Asking the device for it would wait until that step has ended.
    """
    return None if _controller is None else _controller.known_sum(batch)


def told_all(req):
    """The client has all tokens of this unfinished request: its newest is in flight, and a chunk would be empty."""
    return (
        _controller is not None
        and not req.finished()
        and 0 < req.send_token_offset == len(req.output_ids)
    )


def add_state(internal_state, scheduler):
    """Add `dynamic_speculation` to what /server_info reports of a scheduler."""
    if _controller is not None:
        from sglang.srt.speculative.dynamic_disable import telemetry

        internal_state["dynamic_speculation"] = telemetry.state(_controller, scheduler)


def publish(scheduler):
    """Bring the Prometheus metrics up to date."""
    if _controller is not None and scheduler.enable_metrics:
        from sglang.srt.speculative.dynamic_disable import telemetry

        telemetry.publish(_controller, scheduler)


def change_settings(server_args, scheduler):
    """Answer a /set_internal_state request that names our settings.

    Returns:
        None when the request names none of them, else the answer's (updated, server_args).
    """
    from sglang.srt.speculative.dynamic_disable import telemetry

    return telemetry.change_settings(_controller, server_args, scheduler)


def raise_if_refused(answers):
    """In the HTTP process: a refused change of our settings becomes a 400 that says why."""
    from sglang.srt.speculative.dynamic_disable import telemetry

    telemetry.raise_if_refused(answers)
