"""Runs on the host: load past the threshold and the calm after it, with the switch's state all along.

The load is SGLang's own generator, from the release: the same prompts one at a time, and then more at once
than the threshold. Where it cannot run, a burst of requests from here takes its place, and the record says
why. No setting of the server is changed, and all is bounded in requests, tokens and seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from typing import Any

from specctl.evidence.onhost.generator import generate, generator_env, stop_on_signals
from specctl.evidence.onhost.web import TEXT_LIMIT, Client, answer, api_key, client

SUBJECTS = ("a river", "a clock", "a bridge", "the moon", "a forest", "a train", "a letter", "the sea")
FILLER = "It is late in the year, and nobody has been here for a long time."
STATE_KEYS = ("state", "batch", "switches", "on_steps", "off_steps", "decode_graphs", "threshold", "resume")
MOST_SAMPLES = 2000
DETAILS = ("completed", "generated_texts", "errors", "input_lens")


def prompts(count: int, tokenizer: bool) -> list[dict[str, Any]]:
    """Different prompts, each longer than the one before: their lengths tell them apart in a result."""
    if not tokenizer:
        return [{"input_ids": [10 + (7 * i + 13 * j) % 290 for j in range(16)]} for i in range(count)]
    bodies = []
    for i in range(count):
        words = (FILLER + " ").split(" ") * count
        ask = f"Write a short story about {SUBJECTS[i % len(SUBJECTS)]}, in plain words. Part {i + 1}:"
        bodies.append({"text": " ".join([*words[: 4 * i], ask])})
    return bodies


class CannotRun(Exception):
    """The generator cannot be run here; the text says why."""


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
        try:
            self.record["load"] = "generator"
            self.generated(facts)
        except CannotRun as exc:
            self.record["load"], self.record["why_own"] = "own", str(exc)
            self.record["alone"] = [self.one(body, self.params["tokens"]) for body in self.bodies]
            self.watched(lambda: self.burst(int(self.params["requests"])))
        self.calm()
        self.sample("after")
        return self.record

    def generated(self, facts: dict[str, Any]) -> None:
        """SGLang's generator twice: each prompt alone, then all of them again and again at once.

        Raises:
            CannotRun: it does not even answer with the prompts alone.
        """
        orders = self.params.get("generator")
        if not orders:
            raise CannotRun("it was not asked for")
        if facts.get("skip_tokenizer_init"):
            raise CannotRun("the server runs without a tokenizer")
        if not all(isinstance(body.get("text"), str) for body in self.bodies):
            raise CannotRun("the prompts are tokens, and it takes texts")
        folder = tempfile.mkdtemp(prefix="specctl-exercise-")
        try:
            self.generated_in(folder, orders)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def generated_in(self, folder: str, orders: dict[str, Any]) -> None:
        count, requests = len(self.bodies), int(orders["requests"])
        alone = self.generate(folder, orders["alone"], count)
        lens = alone["input_lens"]
        if alone["texts"].count(None) or len(set(lens)) != count:
            raise CannotRun(alone["why"] or "its prompts cannot be told apart by their lengths")
        self.record["alone"] = alone["texts"]
        many: dict[str, Any] = {}
        self.watched(lambda: many.update(self.generate(folder, orders["burst"], requests)))
        if many["why"]:
            self.record["errors"].append(many["why"])
        texts = many["texts"] or [None] * requests
        which = [lens.index(n) if n in lens else 0 for n in many["input_lens"]]
        self.record["burst"], self.record["which"] = texts, which or [0] * len(texts)

    def generate(self, folder: str, argv: list[str], requests: int) -> dict[str, Any]:
        """One run: a text or None for each request, the length of each prompt, and why there are none."""
        rows = [self.bodies[i % len(self.bodies)]["text"] for i in range(requests)]
        dataset = os.path.join(folder, "prompts.jsonl")
        with open(dataset, "w", encoding="utf-8") as handle:
            for text in rows:
                handle.write(json.dumps({"conversations": [{"content": text}, {"content": "-"}]}) + "\n")
        words = [dataset if word == "{dataset}" else word for word in argv]
        key = api_key(list(self.params.get("key_files") or []), self.params.get("key"))
        env = generator_env(self.params["generator"]["env"], key)
        found = generate(words, folder, env, self.left(), DETAILS)
        result = found["result"] or {}
        lists = [result.get(name) for name in ("generated_texts", "errors", "input_lens")]
        texts, errors, lens = (found if isinstance(found, list) else [] for found in lists)
        if not requests == len(texts) == len(errors) == len(lens):
            said = found["tail"].strip().splitlines()[-1:] or ["it said nothing"]
            why = "it did not end in time" if found["code"] is None else said[0][:300]
            return {"texts": [], "input_lens": [], "why": why}
        failed = [str(e)[:300] for e in errors if e]
        whole = [None if errors[i] else str(texts[i])[:TEXT_LIMIT] for i in range(requests)]
        return {"texts": whole, "input_lens": lens, "why": failed[0] if failed else None}

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

    def watched(self, load: Any) -> None:
        """The state is sampled until the load is over."""
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        try:
            load()
        finally:
            self.watching.set()
            watcher.join(30)

    def burst(self, requests: int) -> None:
        """Requests of our own, all at once."""
        texts: list[Any] = [None] * requests

        def send(index: int) -> None:
            texts[index] = self.one(self.bodies[index % len(self.bodies)], self.params["tokens"])

        threads = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(requests)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.left())
        self.record["burst"] = texts
        self.record["which"] = [i % len(self.bodies) for i in range(requests)]

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
        samples = self.record["samples"]
        if not state or len(samples) >= MOST_SAMPLES:
            return None
        found = {"phase": phase, **{k: state.get(k) for k in STATE_KEYS}}
        # the generator takes seconds to start: what is the same again says nothing
        if not (phase == "burst" and samples and samples[-1] == found):
            samples.append(found)
        return found


if __name__ == "__main__":
    _params = globals()["params"]
    stop_on_signals()
    answer(Exercise(client(_params), _params).run())
