"""CUDA graphs of the plain decode step, beside the verify graphs that the target's runner has captured.

The target's own graph runner looks at batch sizes only, never at the forward mode: a DECODE batch given to it
would replay a verify graph. So the plain step has a runner of its own, with its own attention backend
instance (the runner replaces buffers of the instance it is given), in the same memory pool.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time

from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

logger = logging.getLogger(__name__)


class _PlainRunner:
    """The target's ModelRunner as a graph runner must see it: no speculation, other backend and arguments."""

    def __init__(self, model_runner, attn_backend, server_args):
        vars(self).update(
            _model_runner=model_runner,
            attn_backend=attn_backend,
            server_args=server_args,
            spec_algorithm=SpeculativeAlgorithm.NONE,
        )

    def __getattr__(self, name):
        return getattr(vars(self)["_model_runner"], name)


def sizes(captured: list[int], threshold: int) -> list[int]:
    """Batch sizes to capture: all that the verify graphs have above the threshold, and powers of two below.

    The small ones serve the last steps before speculation resumes, and thresholds lowered while serving.
    """
    return [b for b in captured if b > threshold or b & (b - 1) == 0]


class DecodeGraphs:
    """The graph runner of plain decode steps; `runner` is None where the target has no graphs either."""

    def __init__(self, model_runner, threshold: int):
        self.model_runner = model_runner
        self.runner = None
        verify = model_runner.graph_runner
        if verify is None or not str(model_runner.device).startswith("cuda"):
            return
        from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner

        args = copy.copy(model_runner.server_args)
        args.cuda_graph_bs = sizes(verify.capture_bs, threshold)
        args.disable_cuda_graph = False
        # The rebuild needs the hidden states of every step. Captured with them from the start: a graph
        # captured without would be refused for ever, and a request for less would recapture while serving.
        args.enable_return_hidden_states = True
        backend = model_runner._get_attention_backend()
        if hasattr(backend, "skip_prefill"):
            backend.skip_prefill = True  # no custom mask buffer
        start = time.perf_counter()
        self.runner = CudaGraphRunner(_PlainRunner(model_runner, backend, args))
        logger.info(
            f"Captured {len(self.runner.capture_bs)} decode graphs for batches without speculation "
            f"in {time.perf_counter() - start:.1f} s: {self.runner.capture_bs}"
        )

    @contextlib.contextmanager
    def in_place(self):
        """While this is open the target runs plain decode graphs, or none, but never a verify graph."""
        verify = self.model_runner.graph_runner
        self.model_runner.graph_runner = self.runner
        try:
            yield
        finally:
            self.model_runner.graph_runner = verify
