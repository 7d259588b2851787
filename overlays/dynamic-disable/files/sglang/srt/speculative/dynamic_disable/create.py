"""The controller that fits a worker, and the marker line that says so."""

from __future__ import annotations

import logging

from sglang.srt.speculative.dynamic_disable import settings as settings_module
from sglang.srt.speculative.dynamic_disable.step_v1 import PlainStepV1
from sglang.srt.speculative.dynamic_disable.step_v2 import PlainStepV2

logger = logging.getLogger(__name__)


def create(worker, draft_runner):
    """The controller that fits the worker's class, with its marker line in the log.

    Raises:
        ValueError: the switch cannot work with this model or these limits.
    """
    args = worker.server_args
    values = settings_module.resolve(
        args.speculative_disable_batch_threshold,
        args.speculative_resume_batch_threshold,
        args.speculative_resume_steps,
        args.speculative_disable_draft_sync,
    )
    runner = worker.target_worker.model_runner
    settings_module.check_model(runner)
    settings_module.check_reachable(
        values.threshold, runner.max_running_requests, "what the memory for requests and KV cache allows"
    )
    kind = PlainStepV2 if hasattr(worker, "draft_worker") else PlainStepV1
    controller = kind(worker, draft_runner, values)
    logger.info(
        f"Dynamic speculation disable enabled: worker={type(worker).__name__} "
        f"algorithm={args.speculative_algorithm} threshold={values.threshold} resume={values.resume} "
        f"resume_steps={values.resume_steps} draft_sync={values.draft_sync} "
        f"tp_rank={runner.tp_rank} tp_size={runner.tp_size} decode_graphs={controller.has_graphs}"
    )
    return controller
