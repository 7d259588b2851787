"""The stand-in's decode loop: a batch, the switch with its two thresholds, texts that follow from prompts."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .knobs import Knobs


def token(prompt: str, index: int) -> str:
    """Token `index` of the greedy answer to `prompt`: a function of both and nothing else."""
    digest = hashlib.sha256(f"{prompt}|{index}".encode("utf-8", "replace")).digest()
    return f"t{2 + int.from_bytes(digest[:2], 'big') % 500}"


class Request:
    """One generation."""

    def __init__(self, prompt: str, tokens: int) -> None:
        self.prompt, self.left = prompt, tokens
        self.out: list[str] = []
        self.done = threading.Event()


class Engine:
    """Steps all running requests together; speculation on means two tokens a step, off means one."""

    def __init__(
        self, args: Any, knobs: Knobs, worker: str, switching: bool, log: Callable[[str], None]
    ) -> None:
        self.knobs, self.log, self.worker, self.switching = knobs, log, worker, switching
        self.threshold = args.disable_threshold if args.disable_threshold is not None else 0
        resume = args.resume_threshold
        self.resume = max(0, self.threshold - 2) if resume is None else resume
        self.resume_steps = 4 if args.resume_steps is None else args.resume_steps
        self.draft_sync = args.draft_sync or "lazy"
        self.limit = args.max_running_requests or 48
        self.graphs = not args.disable_cuda_graph and not knobs.no_decode_graphs
        self.speculating = worker != ""
        self.on, self.batch, self.low = True, 0, 0
        self.switches = self.on_steps = self.off_steps = 0
        self.changes = 0  # made while running
        self.hung = False
        self.lock = threading.Lock()
        self.queue: deque[Request] = deque()
        self.running: list[Request] = []
        threading.Thread(target=self._loop, daemon=True).start()

    def submit(self, prompt: str, tokens: int) -> Request:
        request = Request(prompt, max(1, min(tokens, 100_000)))
        with self.lock:
            self.queue.append(request)
        return request

    def _loop(self) -> None:
        while True:
            drafting = self.on and self.speculating and bool(self.knobs.draft_s)
            time.sleep(self.knobs.step_s + (self.knobs.draft_s * len(self.running) if drafting else 0.0))
            if not self.hung:
                with self.lock:
                    self._step()

    def _step(self) -> None:
        while self.queue and len(self.running) < self.limit:
            self.running.append(self.queue.popleft())
        self.batch = len(self.running)
        if not self.running:
            return
        if self.switching:
            self._decide()
        width = 2 if self.on and self.speculating else 1
        if self.on:
            self.on_steps += 1
        else:
            self.off_steps += 1
        for request in self.running:
            for _ in range(min(width, request.left)):
                wrong = self.knobs.wrong_text_off and not self.on
                request.out.append(token(request.prompt + ("!" if wrong else ""), len(request.out)))
                request.left -= 1
            if request.left == 0:
                request.done.set()
        self.running = [r for r in self.running if r.left]

    def _decide(self) -> None:
        if self.on:
            if self.batch > self.threshold and not self.knobs.never_off:
                self.on, self.low = False, 0
                self.switches += 1
                self.log(f"Dynamic speculation: off, batch {self.batch} > {self.threshold}")
            return
        self.low = self.low + 1 if self.batch <= self.resume else 0
        if self.low >= self.resume_steps and not self.knobs.never_on:
            self.on = True
            self.switches += 1
            self.log(
                f"Dynamic speculation: on, batch {self.batch} <= {self.resume} for {self.resume_steps} steps"
            )

    def set(self, changes: dict[str, Any]) -> bool:
        """The live change; False when a name or a value is refused."""
        names = {
            "speculative_disable_batch_threshold": "threshold",
            "speculative_resume_batch_threshold": "resume",
            "speculative_resume_steps": "resume_steps",
        }
        if not self.switching or any(k not in names or not isinstance(v, int) for k, v in changes.items()):
            return False
        with self.lock:
            new = {names[k]: v for k, v in changes.items()}
            threshold, resume = new.get("threshold", self.threshold), new.get("resume", self.resume)
            if threshold < 0 or resume > threshold or new.get("resume_steps", 1) < 1:
                return False
            old = (self.threshold, self.resume, self.resume_steps)
            self.changes += 1
            for name, value in new.items():
                setattr(self, name, value)
            self.log(
                f"Dynamic speculation: threshold {old[0]} -> {self.threshold}, "
                f"resume {old[1]} -> {self.resume}, resume_steps {old[2]} -> {self.resume_steps}"
            )
        return True

    def state(self) -> dict[str, Any]:
        """`internal_states[0]` of /server_info."""
        state: dict[str, Any] = {
            "last_gen_throughput": 100.0,
            "effective_max_running_requests_per_dp": self.limit,
        }
        if self.switching and not self.knobs.no_state:
            state["dynamic_speculation"] = {
                "worker": self.worker,
                "state": "on" if self.on else "off",
                "batch": self.batch,
                "threshold": self.threshold,
                "resume": self.resume,
                "resume_steps": self.resume_steps,
                "draft_sync": self.draft_sync,
                "switches": self.switches,
                "on_steps": self.on_steps,
                "off_steps": self.off_steps,
                "accept_length_on": 2.0 if self.on_steps else None,
                "decode_graphs": self.graphs,
                "flushes": 0,
                "flushed_tokens": 0,
            }
        return state


def say(text: str, rank: int | None = None) -> None:
    """One log line on stderr with SGLang's prefix."""
    write(text.encode(), rank)


def write(data: bytes, rank: int | None = None) -> None:
    """One log line of raw bytes on stderr."""
    suffix = "" if rank is None else f" TP{rank}"
    prefix = f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{suffix}] "
    sys.stderr.buffer.write(prefix.encode() + data + b"\n")
    sys.stderr.buffer.flush()
