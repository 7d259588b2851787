"""Shims without which SGLang's speculative decoding does not run on a CPU at all."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

Register = Callable[[str, Callable[[ModuleType], None]], None]


def register(after_import: Register) -> None:
    after_import("sglang.srt.utils.common", _torch_like_a_gpu)
    after_import("sglang.srt.speculative.eagle_utils", _tree_kernels)
    after_import("sglang.srt.speculative.eagle_info", _sampling_kernels)
    after_import("sglang.srt.speculative.eagle_info_v2", _sampling_kernels)
    after_import("sglang.srt.speculative.eagle_info_v2", _claims_cuda)
    after_import("sglang.srt.constrained.xgrammar_backend", _grammar_mask)


def _torch_like_a_gpu(_: ModuleType) -> None:
    import torch

    # V2 guards tensors that cross streams with record_stream; torch has no CPU kernel for it
    torch.Tensor.record_stream = lambda self, stream: None
    # called without a device check when a draft takes over the target's embedding
    torch.cuda.synchronize = lambda *args, **kwargs: None
    # .cpu() of a CUDA tensor is always a copy. Of a CPU tensor it is the tensor itself, so that a later
    # in-place update would change what the scheduler believes to hold as its host copy.
    alias = torch.Tensor.cpu
    torch.Tensor.cpu = lambda self, *args, **kwargs: alias(self, *args, **kwargs).clone()


def _tree_kernels(module: ModuleType) -> None:
    import sgl_kernel

    # imported for CUDA and HIP only; on any other device verify_tree_greedy_func does nothing at all
    module.sgl_build_tree_kernel_efficient = sgl_kernel.build_tree_kernel_efficient
    module._is_cuda = True


def _sampling_kernels(module: ModuleType) -> None:
    import sgl_kernel

    for name in ("top_k_renorm_prob", "top_p_renorm_prob", "tree_speculative_sampling_target_only"):
        setattr(module, name, getattr(sgl_kernel, name))
    if hasattr(module, "TREE_SPEC_KERNEL_AVAILABLE"):
        module.TREE_SPEC_KERNEL_AVAILABLE = True  # otherwise V1 verifies greedily at any temperature


def _claims_cuda(module: ModuleType) -> None:
    module._is_cuda = True  # assign_extend_cache_locs_func returns None on other devices


def _grammar_mask(module: ModuleType) -> None:
    import xgrammar

    # SGLang asks for this attribute on a CPU and defines it nowhere
    module.XGrammarGrammar.apply_vocab_mask_cpu = staticmethod(xgrammar.apply_token_bitmask_inplace)
