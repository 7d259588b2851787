"""A server's arguments beside the keys of the inventory, and beside SGLang's own rules (0.5.9)."""

from __future__ import annotations

from specctl.config import arguments as sglang
from specctl.config.checks.case import ServerCase

_KEYS = ((sglang.MODEL_PATH, "model"), (sglang.HOST, "bind"), (sglang.PORT, "port"))


def check_arguments(case: ServerCase) -> None:
    """Refuse arguments that repeat a key, a --config that would not work, and too few GPUs."""
    for flag, key in _KEYS:
        given = case.find(flag)
        if given is not None:
            text = f"{given.spelled} is what `{key}:` says"
            said = case.settings.get(key)
            hint = f"take it out of args; {key} is at {said.where}" if said else f"write it as `{key}:`"
            case.refuse("argument-twice", case.at_argument(given.index), text, hint)
    if "CUDA_VISIBLE_DEVICES" in case.server.env:
        text = "CUDA_VISIBLE_DEVICES is what `gpus:` says"
        hint = "write the numbers under gpus:, where two servers on one GPU are noticed"
        case.refuse("argument-twice", case.at("env", "CUDA_VISIBLE_DEVICES"), text, hint)
    _check_config_file(case)
    _check_gpu_count(case)


def _check_config_file(case: ServerCase) -> None:
    """SGLang looks for the very word --config, once; what that file says is not seen here."""
    given = case.find(sglang.CONFIG)
    if given is None:
        return
    where = case.at_argument(given.index)
    if case.server.args[given.index] != "--config":
        text = "SGLang ignores a --config that is shortened or joined to its value"
        case.refuse("config-file", where, text, "write two items: --config and the path")
    elif case.server.secret_args:
        text = "SGLang reads one --config file, and the secrets that are arguments need it"
        case.refuse("config-file", where, text, "move what your file says to args")
    else:
        text = "what the --config file says cannot be checked here"
        case.warn("config-file", where, text, "move what it says to args")


def _check_gpu_count(case: ServerCase) -> None:
    listed = len(case.server.gpus)
    if not listed or (case.number(sglang.NNODES) or 1) > 1 or case.find(sglang.CONFIG) is not None:
        return
    needed = (case.number(sglang.TP_SIZE) or 1) * (case.number(sglang.PP_SIZE) or 1)
    if case.find(sglang.DP_ATTENTION) is None:  # with it, data parallelism splits the tensor-parallel ranks
        needed *= case.number(sglang.DP_SIZE) or 1
    if needed > listed:
        text = f"the arguments ask for {needed} GPUs, gpus lists {listed}"
        hint = "list as many GPUs as --tp-size, --pp-size and --dp-size multiply to"
        case.refuse("gpu-count", case.at("gpus"), text, hint)
    elif needed < listed:
        text = f"gpus lists {listed} GPUs, the arguments use {needed}"
        case.warn("gpu-count", case.at("gpus"), text, f"add --tp-size {listed} to args, or list fewer GPUs")
