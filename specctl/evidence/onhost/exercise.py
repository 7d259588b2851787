"""Runs on the host: a burst past the threshold and the calm after it, with the switch's state all along.

It changes no setting of the server, and it is bounded in requests, tokens and seconds.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from specctl.evidence.onhost.web import Client, answer, client

SUBJECTS = ("a river", "a clock", "a bridge", "the moon", "a forest", "a train", "a letter", "the sea")
STATE_KEYS = ("state", "batch", "switches", "on_steps", "off_steps", "decode_graphs", "threshold", "resume")
MOST_SAMPLES = 2000


def prompts(count: int, tokenizer: bool) -> list[dict[str, Any]]:
    """Different prompts of about the same length."""
    if not tokenizer:
        return [{"input_ids": [10 + (7 * i + 13 * j) % 290 for j in range(16)]} for i in range(count)]
    return [
        {"text": f"Write a short story about {SUBJECTS[i % len(SUBJECTS)]}, in plain words. Part {i + 1}:"}
        for i in range(count)
    ]


class Exercise:
    """One run. `record` is what comes back."""

    def __init__(self, web: Client, params: dict[str, Any]) -> None:
        self.web, self.params = web, params
        self.end = time.monotonic() + float(params["limit_s"])
        self.record: dict[str, Any] = {"samples": [], "alone": [], "burst": [], "errors": [], "info": None}
        self.watching = threading.Event()
        self.bodies = list(params["prompts"])

    def left(self) -> float:
        return max(1.0, self.end - time.monotonic())

    def run(self) -> dict[str, Any]:
        info = self.web.info()
        facts = info["json"]
        self.record["info"] = facts
        self.record["info_error"] = info["error"] or (
            None if info["status"] == 200 else "status {}".format(info["status"])
        )
        if not facts or not facts.get("state"):
            return self.record
        if not self.bodies:
            self.bodies = prompts(int(self.params["distinct"]), not facts.get("skip_tokenizer_init"))
        self.sample("before")
        self.record["alone"] = [self.one(body, self.params["tokens"]) for body in self.bodies]
        self.burst(int(self.params["requests"]))
        self.calm()
        self.sample("after")
        return self.record

    def one(self, body: dict[str, Any], tokens: int) -> str | None:
        """The text of one greedy request; None and a note when it fails."""
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        found = self.web.generate({**body, "sampling_params": sampling}, min(self.left(), 120.0))
        if found["status"] == 200 and found["text"] is not None:
            return str(found["text"])
        problem = found["error"] or found["detail"] or "status {}".format(found["status"])
        if len(self.record["errors"]) < 20:
            self.record["errors"].append(str(problem))
        return None

    def burst(self, requests: int) -> None:
        """All at once; the state is sampled until the last one is done."""
        texts: list[Any] = [None] * requests

        def send(index: int) -> None:
            texts[index] = self.one(self.bodies[index % len(self.bodies)], self.params["tokens"])

        threads = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(requests)]
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.left())
        self.watching.set()
        watcher.join(30)
        self.record["burst"] = texts

    def watch(self) -> None:
        while not self.watching.is_set():
            self.sample("burst")
            self.watching.wait(float(self.params["sample_s"]))

    def calm(self) -> None:
        """One request at a time until speculation is on again, at most a few."""
        for _ in range(int(self.params["calm_rounds"])):
            self.one(self.bodies[0], self.params["calm_tokens"])
            last = self.sample("calm")
            if last is None or last.get("state") == "on" or time.monotonic() > self.end:
                return

    def sample(self, phase: str) -> dict[str, Any] | None:
        info = self.web.info(min(self.left(), 20.0))["json"]
        state = (info or {}).get("state")
        if not state or len(self.record["samples"]) >= MOST_SAMPLES:
            return None
        found = {"phase": phase, **{k: state.get(k) for k in STATE_KEYS}}
        self.record["samples"].append(found)
        return found


if __name__ == "__main__":
    _params = globals()["params"]
    answer(Exercise(client(_params), _params).run())
