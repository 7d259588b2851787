"""Starts rig servers quickly: imports SGLang once and forks for each server. Runs under the rig's Python.

Importing SGLang takes about five seconds in each of a server's three processes, which on two cores is most
of a test's time. Here a server process, its scheduler and its detokenizer are forks of one process that has
imported everything. What runs in them is what `python -m sglang.launch_server ARGS` runs.

One JSON command a line on stdin, one JSON answer a line on stdout:
    {"op": "start", "argv": [...], "env": {...}, "hooks": [files], "log": path}  ->  {"pid": n}
    {"op": "poll", "pid": n}  ->  {"status": null while it runs, else exit status or minus the signal}
End of stdin ends the nursery; servers that still run are killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

PRELOAD = (
    "sglang.launch_server",
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.models.registry",
    "sglang.srt.models.llama_eagle",
    "sglang.srt.models.llama_eagle3",
    "sglang.srt.speculative.eagle_worker",
    "sglang.srt.speculative.eagle_worker_v2",
    "sglang.srt.layers.attention.triton_backend",
)


def _serve(argv: Sequence[str], env: Mapping[str, str], hooks: Sequence[str], log: str) -> NoReturn:
    """In the forked child: become the server. Never returns."""
    from rig_shims import importhook

    os.setsid()  # the harness ends a server by its process group
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(env)
    # SGLang asks for "spawn"; forks of this process have all modules already
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *args, **kwargs: None
    status = 1
    try:
        for path in hooks:
            importhook.register_file(path)
        sys.argv = ["sglang.launch_server", *argv]
        runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=False)
        status = 0
    except SystemExit as exc:
        if exc.code is not None and not isinstance(exc.code, int):
            print(exc.code, file=sys.stderr)
        status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Nursery:
    """The servers of one nursery, by pid."""

    def __init__(self) -> None:
        self.status: dict[int, int | None] = {}

    def start(self, argv: list[str], env: dict[str, str], hooks: list[str], log: str) -> dict[str, Any]:
        pid = os.fork()
        if pid == 0:
            _serve(argv, env, hooks, log)
        self.status[pid] = None
        return {"pid": pid}

    def poll(self, pid: int) -> dict[str, Any]:
        if self.status[pid] is None:
            done, raw = os.waitpid(pid, os.WNOHANG)
            if done:
                self.status[pid] = os.waitstatus_to_exitcode(raw)
        return {"status": self.status[pid]}

    def close(self) -> None:
        for pid in [p for p in self.status if self.poll(p)["status"] is None]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing that an import prints may get between the answers
    for name in PRELOAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks share these objects' memory pages
    nursery = Nursery()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(nursery, command.pop("op"))(**command)
        print(json.dumps(answer), file=answers)
    nursery.close()


if __name__ == "__main__":
    main()
