"""What the plan says must be seen for one server. Pure, but for files that a route may have to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from specctl.build.distribution import Distribution
from specctl.config.command import server_argv, server_env
from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.model import Expectation
from specctl.evidence.route import covered_workers
from specctl.route.predict import predict

_TP = ("--tensor-parallel-size", "--tp-size", "--tp")
_NODES = ("--nnodes",)
_RANK = ("--node-rank",)


def expectation_for(
    host: HostConfig,  # noqa: ARG001 (what is expected may come to depend on it)
    server: ServerConfig,
    distribution: Distribution,
    *,
    read: Callable[[str], bytes | None] | None = None,
) -> Expectation:
    """The expectation of one server with one distribution.

    Args:
        read: gives a file of the host, for a route that depends on `--config FILE` or on a model's folder;
            None: such files are not looked at.
    """
    args = launch_args(server)
    route = predict(distribution.base_version, args, server_env(server), read=read)
    policy = server.threshold
    tp_size = number(args, _TP, 1)
    return Expectation(
        server=server.name,
        distribution=distribution.version,
        files=dict(distribution.files),
        worker=route.worker,
        threshold=policy.disable if policy else None,
        resume=policy.resume if policy else None,
        resume_steps=policy.resume_steps if policy else None,
        draft_sync=policy.draft_sync if policy else None,
        ranks=local_ranks(tp_size, number(args, _NODES, 1), number(args, _RANK, 0)),
        url=local_url(server, args),
        tp_size=tp_size,
        reasons=route.reasons,
        problems=route.problems,
        covers=covered_workers(distribution.files),
    )


def launch_args(server: ServerConfig) -> tuple[str, ...]:
    """The arguments after `-m sglang.launch_server`, without the file of secret arguments."""
    return server_argv(replace(server, secret_args={}, secret_file=None), python="python")[3:]


def number(args: Sequence[str], flags: Sequence[str], default: int) -> int:
    """The last value given to one of these flags, as argparse would take it: `--flag N` or `--flag=N`."""
    value = default
    for index, arg in enumerate(args):
        flag, equals, inline = arg.partition("=")
        if flag not in flags:
            continue
        text = inline if equals else args[index + 1] if index + 1 < len(args) else ""
        if text.isascii() and text.isdigit():
            value = int(text)
    return value


def local_ranks(tp_size: int, nodes: int, node_rank: int) -> tuple[int, ...]:
    """The tensor-parallel ranks that log on this host: all, or this node's share of them."""
    share = max(1, tp_size // max(1, nodes))
    first = (node_rank * share) % max(1, tp_size)
    return tuple(range(first, min(first + share, max(1, tp_size))))


def local_url(server: ServerConfig, args: Sequence[str] = ()) -> str:
    """Where the server is reached from its own host."""
    bind = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]", "localhost": "127.0.0.1"}.get(
        server.bind, f"[{server.bind}]" if ":" in server.bind else server.bind
    )
    scheme = "https" if any(a.partition("=")[0] == "--ssl-certfile" for a in args) else "http"
    return f"{scheme}://{bind}:{server.port}"
