"""How a server is launched: its argv and its environment, without any secret. Pure."""

from __future__ import annotations

from specctl.config.model import ServerConfig, ThresholdPolicy

# The flags that the dynamic-disable overlay adds to SGLang's command line, in the order they are given.
DISABLE_FLAG = "--speculative-disable-batch-threshold"
RESUME_FLAG = "--speculative-resume-batch-threshold"
RESUME_STEPS_FLAG = "--speculative-resume-steps"
DRAFT_SYNC_FLAG = "--speculative-disable-draft-sync"
THRESHOLD_FLAGS = (DISABLE_FLAG, RESUME_FLAG, RESUME_STEPS_FLAG, DRAFT_SYNC_FLAG)


def server_argv(server: ServerConfig, *, python: str) -> tuple[str, ...]:
    """The whole launch command of one server.

    `python` is the interpreter of the release, e.g. "<root>/servers/main/current/venv/bin/python". A server
    with `secret_args` reads them from `secret_file`, which must be on the host before it starts: SGLang
    refuses to start without it, so a forgotten file can never mean a server without its key.
    """
    secret = ("--config", server.secret_file) if server.secret_args and server.secret_file else ()
    return (
        python,
        "-m",
        "sglang.launch_server",
        "--model-path",
        server.model,
        "--host",
        server.bind,
        "--port",
        str(server.port),
        *secret,
        *server.args,
        *threshold_argv(server.threshold),
    )


def threshold_argv(policy: ThresholdPolicy | None) -> tuple[str, ...]:
    """The policy as the overlay's flags; what is None is left to the overlay's own default."""
    if policy is None:
        return ()
    values = (policy.disable, policy.resume, policy.resume_steps, policy.draft_sync)
    return tuple(
        part
        for flag, value in zip(THRESHOLD_FLAGS, values, strict=True)
        if value is not None
        for part in (flag, str(value))
    )


def server_env(server: ServerConfig) -> dict[str, str]:
    """The environment that is no secret: `env`, and CUDA_VISIBLE_DEVICES when `gpus` are set."""
    env = dict(server.env)
    if server.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in server.gpus)
    return env
