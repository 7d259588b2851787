"""The launch command is what the inventory says, and holds no secret."""

from __future__ import annotations

from config.builders import EAGLE3_ARGS, make_server
from config.cases import parse
from specctl.config.command import server_argv, server_env, threshold_argv
from specctl.config.model import SecretRef, ThresholdPolicy


def test_the_command_of_a_server_with_a_threshold() -> None:
    assert server_argv(make_server(), python="/r/venv/bin/python") == (
        "/r/venv/bin/python", "-m", "sglang.launch_server",
        "--model-path", "/models/target", "--host", "127.0.0.1", "--port", "30000",
        *EAGLE3_ARGS,
        "--speculative-disable-batch-threshold", "16", "--speculative-resume-batch-threshold", "14",
        "--speculative-resume-steps", "4", "--speculative-disable-draft-sync", "lazy",
    )  # fmt: skip


def test_what_a_policy_leaves_open_is_left_to_the_overlay() -> None:
    assert threshold_argv(ThresholdPolicy(disable=0)) == ("--speculative-disable-batch-threshold", "0")
    assert threshold_argv(None) == ()


def test_secrets_reach_the_server_through_a_file_and_never_through_the_command() -> None:
    text = """
        hosts:
          a:
            root: /srv/specctl
            servers:
              - name: main
                model: /m
                port: 30000
                gpus: 2-3
                args: --tp 2
                env: {A: 1}
                secrets: {--api-key: {env: KEY}, HF_TOKEN: {file: /t}}
    """
    (server,) = parse(text).hosts[0].servers
    argv = server_argv(server, python="python")
    at = argv.index("--config")
    assert argv[at + 1] == server.secret_file == "/srv/specctl/servers/main/secret-args.yaml"
    assert not any("api-key" in word or "KEY" in word for word in argv)
    assert server_env(server) == {"A": "1", "CUDA_VISIBLE_DEVICES": "2,3"}
    assert server.secrets == {"HF_TOKEN": SecretRef("file", "/t")}
    assert server.secret_args == {"--api-key": SecretRef("env", "KEY")}


def test_without_gpus_of_its_own_a_server_keeps_what_the_host_sets() -> None:
    assert server_env(make_server(gpus=(), env={})) == {}
