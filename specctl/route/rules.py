"""From server arguments to a worker class: the rules of releases in which spec V2 is asked for by a variable.

Read in the published wheels of 0.5.9 and 0.5.10.post1: server_args.py (`__post_init__` and the handlers it
calls, `check_server_args`, `auto_choose_speculative_params`) and speculative/spec_info.py (`create_worker`).
The order of the checks is SGLang's, because a later handler overrules an earlier one.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from specctl.route.model import Route, RouteRules, Trace, WorkerClasses
from specctl.route.switch_rules import switch_problems

_TRUE = ("true", "1", "yes", "y")
_FALSE = ("false", "0", "no", "n")
_SPARSE_HEAD = "SGLANG_EMBEDDINGS_SPARSE_HEAD"
_PAGED_TREES = ("flashinfer", "fa3")  # attention backends that take topk > 1 with pages larger than one token


def decide(
    base: str, rules: RouteRules, args: Namespace, env: Mapping[str, str], architecture: str | None = None
) -> Route:
    """The route of parsed server arguments.

    Args:
        args: from `options.parse`.
        env: the server's environment.
        architecture: first entry of `architectures` in the model's config.json; None when it is not known.
    """
    trace = Trace(max_running_requests=args.max_running_requests)
    wants_v2 = _variable(env, rules.variable, trace)
    multi_layer = args.enable_multi_layer_eagle
    by_itself = architecture and any(name in architecture for name in rules.multi_layer_architectures)
    if args.speculative_algorithm == "EAGLE" and by_itself:
        multi_layer = wants_v2 = True
        trace.reasons.append(f"{architecture} turns multi-layer EAGLE and spec V2 on by itself")

    _overlap_before_speculation(args, env, trace)
    algorithm = args.speculative_algorithm
    if algorithm in rules.aliases:
        trace.reasons.append(f"{algorithm} is another name of {rules.aliases[algorithm]}")
        algorithm = rules.aliases[algorithm]
    if algorithm in rules.eagle_like:
        _eagle(algorithm, rules, args, wants_v2, architecture, trace)
    elif algorithm == "NGRAM":
        _ngram(rules, args, trace)
    _after_speculation(algorithm, args, wants_v2, trace)
    trace.problems += switch_problems(args, trace, algorithm=algorithm, multi_layer=bool(multi_layer))

    worker = None
    if algorithm is None:
        trace.reasons.append("no --speculative-algorithm, so no worker for drafts")
    elif not trace.problems:
        eagle = algorithm in ("EAGLE", "EAGLE3")
        if multi_layer and eagle:
            worker = _pick(rules.multi_layer, f"multi-layer {algorithm}", trace)
        else:
            worker = _pick(rules.algorithms[algorithm], algorithm, trace)
    return Route(
        base=base,
        worker=worker,
        overlap=trace.overlap,
        reasons=tuple(trace.reasons),
        problems=tuple(trace.problems),
        warnings=tuple(trace.warnings),
        file=rules.files.get(worker) if worker else None,
        algorithm=algorithm,
        steps=trace.steps,
        topk=trace.topk,
        draft_tokens=trace.draft_tokens,
        max_running_requests=trace.max_running_requests,
    )


def _variable(env: Mapping[str, str], name: str, trace: Trace) -> bool:
    """A boolean environment variable as SGLang reads it: a value it does not know counts as unset."""
    value = env.get(name)
    if value is None or value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    trace.warnings.append(f"{name}={value!r} is not a boolean for SGLang (1, true, yes, y): taken as unset")
    return False


def _overlap_before_speculation(args: Namespace, env: Mapping[str, str], trace: Trace) -> None:
    if args.disable_overlap_schedule:
        trace.overlap = False
        trace.reasons.append("--disable-overlap-schedule turns the overlap scheduler off")
    if _SPARSE_HEAD in env:
        trace.overlap = False
        trace.reasons.append(f"{_SPARSE_HEAD} turns the overlap scheduler off")
    if (args.pipeline_parallel_size or 1) > 1:
        trace.overlap = False
        trace.reasons.append("pipeline parallelism turns the overlap scheduler off")


def _eagle(
    algorithm: str,
    rules: RouteRules,
    args: Namespace,
    wants_v2: bool,
    architecture: str | None,
    trace: Trace,
) -> None:
    topk, steps, tokens = (
        args.speculative_eagle_topk,
        args.speculative_num_steps,
        args.speculative_num_draft_tokens,
    )
    if algorithm == "STANDALONE" and _dp_attention(args):
        trace.problems.append("STANDALONE does not work with --enable-dp-attention")
    _limit(rules, trace)
    if wants_v2:
        if args.disable_overlap_schedule:
            trace.warnings.append(f"{rules.variable} overrules --disable-overlap-schedule")
        trace.overlap = True
        trace.reasons.append(f"{rules.variable} is on: spec V2, and with it the overlap scheduler")
        if topk is not None and topk > 1:
            trace.problems.append(f"spec V2 works with topk 1 only, and --speculative-eagle-topk is {topk}")
    else:
        trace.overlap = False
        trace.reasons.append(f"{rules.variable} is off: {algorithm} runs without the overlap scheduler")
    if steps is None:
        if topk is not None or tokens is not None:
            flag = "--speculative-eagle-topk" if topk is not None else "--speculative-num-draft-tokens"
            trace.problems.append(f"{flag} needs --speculative-num-steps beside it")
            return
        steps, topk, tokens = _automatic(algorithm, rules, architecture, trace)
    elif topk is None:
        trace.problems.append("--speculative-num-steps needs --speculative-eagle-topk beside it")
        return
    if topk is not None and topk > 1:
        _tree(args, topk, trace)
        if wants_v2 and args.speculative_eagle_topk is None:
            trace.warnings.append(
                f"spec V2 works with topk 1 only, but SGLang chooses topk {topk} for {architecture}: set "
                "--speculative-num-steps, --speculative-eagle-topk 1 and --speculative-num-draft-tokens"
            )
    if topk == 1 and steps is not None:
        tokens = steps + 1
    trace.steps, trace.topk, trace.draft_tokens = steps, topk, tokens


def _automatic(
    algorithm: str, rules: RouteRules, architecture: str | None, trace: Trace
) -> tuple[int | None, int | None, int | None]:
    """Steps, topk and draft tokens that SGLang chooses when none is given."""
    if algorithm == "STANDALONE":
        return rules.auto[""]
    if architecture is None:
        trace.warnings.append(
            "SGLang chooses steps and topk by the model's architecture, which is not known here"
        )
        return None, None, None
    chosen = rules.auto.get(architecture, rules.auto[""])
    trace.reasons.append(f"steps, topk and draft tokens for {architecture}: {chosen}")
    return chosen


def _tree(args: Namespace, topk: int, trace: Trace) -> None:
    """Checks for a draft tree, that is topk > 1."""
    backends = (args.attention_backend, args.decode_attention_backend, args.prefill_attention_backend)
    if "trtllm_mha" in backends:
        trace.problems.append(f"the trtllm_mha attention backend works with topk 1 only, not {topk}")
    _pages(args, f"topk {topk}", _PAGED_TREES, trace)


def _pages(args: Namespace, what: str, backends: tuple[str, ...], trace: Trace) -> None:
    """Pages of more than one token hold a draft tree with some attention backends only."""
    page = args.page_size or 1
    if page <= 1 or args.attention_backend in backends:
        return
    if args.attention_backend is not None:
        trace.problems.append(
            f"{what} with --page-size {page} does not work with the {args.attention_backend} backend"
        )
    else:  # SGLang chooses by the GPU and by what is installed
        trace.warnings.append(
            f"{what} with --page-size {page} works with {' and '.join(backends)} only: "
            "set --attention-backend"
        )


def _dp_attention(args: Namespace) -> bool:
    """SGLang drops --enable-dp-attention with one data-parallel rank."""
    return bool(args.enable_dp_attention) and (args.data_parallel_size or 1) > 1


def _ngram(rules: RouteRules, args: Namespace, trace: Trace) -> None:
    if args.device is not None and not args.device.startswith("cuda"):
        trace.problems.append(f"NGRAM works on CUDA devices only, not on {args.device}")
    _limit(rules, trace)
    trace.overlap = False
    trace.reasons.append("NGRAM runs without the overlap scheduler")
    breadth = args.speculative_ngram_max_bfs_breadth
    topk = 10 if breadth is None else breadth  # 10 is the release's default of that flag
    if topk > 1:
        _pages(args, "NGRAM", ("flashinfer",), trace)
    if _dp_attention(args):
        trace.problems.append("NGRAM does not work with --enable-dp-attention")
    trace.topk, trace.draft_tokens = topk, args.speculative_num_draft_tokens


def _limit(rules: RouteRules, trace: Trace) -> None:
    if trace.max_running_requests is None:
        trace.max_running_requests = rules.request_limit
        trace.warnings.append(
            f"without --max-running-requests, speculation limits the running batch to {rules.request_limit}"
        )


def _after_speculation(algorithm: str | None, args: Namespace, wants_v2: bool, trace: Trace) -> None:
    if args.disaggregation_decode_enable_offload_kvcache:
        if args.disaggregation_mode != "decode":
            trace.problems.append("--disaggregation-decode-enable-offload-kvcache is for decode servers only")
        elif wants_v2:
            trace.problems.append("spec V2 does not work with --disaggregation-decode-enable-offload-kvcache")
    if args.dllm_algorithm is not None:
        trace.overlap = False
        trace.reasons.append("diffusion LLM inference turns the overlap scheduler off")
    if (args.pipeline_parallel_size or 1) > 1 and algorithm is not None:
        trace.problems.append("speculative decoding does not work with pipeline parallelism")
    if (args.enable_lora or args.lora_paths) and algorithm not in (None, "NGRAM"):
        trace.problems.append(f"LoRA works with NGRAM only, not with {algorithm}")
    if args.enable_pdmux and trace.overlap:
        trace.problems.append("--enable-pdmux does not work with the overlap scheduler")


def _pick(classes: WorkerClasses, algorithm: str, trace: Trace) -> str | None:
    worker = classes.overlap if trace.overlap else classes.sync
    how = "with" if trace.overlap else "without"
    if worker is None:
        trace.problems.append(f"{algorithm} has no worker class that starts {how} the overlap scheduler")
    else:
        trace.reasons.append(f"{algorithm} {how} the overlap scheduler starts {worker}")
    return worker
