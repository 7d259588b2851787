"""Stands in for `python -m sglang.bench_serving`: same options and result file, a closed loop of requests."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any


def parse(argv: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--backend", "--base-url", "--model", "--tokenizer", "--dataset-name", "--dataset-path"):
        p.add_argument(name)
    for name in (
        "--sharegpt-output-len",
        "--num-prompts",
        "--max-concurrency",
        "--warmup-requests",
        "--seed",
    ):
        p.add_argument(name, type=int)
    p.add_argument("--flush-cache", action="store_true")
    p.add_argument("--disable-tqdm", action="store_true")
    p.add_argument("--output-details", action="store_true")
    p.add_argument("--output-file")
    return p.parse_args(argv)


def ask(url: str, prompt: str, tokens: int) -> tuple[int, str]:
    body = {
        "text": prompt,
        "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True},
    }
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode())
    if os.environ.get("OPENAI_API_KEY"):
        request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
    with urllib.request.urlopen(request, timeout=300) as answer:
        document = json.loads(answer.read())
        return int(document["meta_info"]["completion_tokens"]), str(document["text"])


def main(argv: list[str]) -> None:
    args = parse(argv)
    rows = [json.loads(line) for line in Path(args.dataset_path).read_text().splitlines()]
    prompts = [row["conversations"][0]["content"] for row in rows]
    random.Random(args.seed).shuffle(prompts)
    prompts = prompts[: args.num_prompts]
    todo, guard = list(enumerate(prompts)), threading.Lock()
    times: list[float] = []
    tokens: list[int] = []
    texts, errors = [""] * len(prompts), [""] * len(prompts)

    def work() -> None:
        while True:
            with guard:
                if not todo:
                    return
                index, prompt = todo.pop()
            begin = time.monotonic()
            try:
                count, texts[index] = ask(args.base_url, prompt, args.sharegpt_output_len)
            except OSError as exc:
                errors[index] = str(exc)
                continue
            with guard:
                times.append(time.monotonic() - begin)
                tokens.append(count)

    begin = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(args.max_concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    per_token = [1000 * t / max(1, n) for t, n in zip(times, tokens, strict=True)]
    if not tokens:
        sys.exit("no request was answered")
    result: dict[str, Any] = {
        "completed": len(tokens),
        "output_throughput": sum(tokens) / seconds,
        "median_tpot_ms": sorted(per_token)[len(per_token) // 2],
        "p99_itl_ms": max(per_token),
        "median_ttft_ms": 5.0,
        "total_input_tokens": sum(len(p.split()) for p in prompts),
        "total_output_tokens": sum(tokens),
        "concurrency": sum(times) / seconds,
        "duration": seconds,
        "server_info": {"api_key": os.environ.get("OPENAI_API_KEY")},  # as the real one writes it
    }
    if args.output_details:
        lens = [len(p.split()) for p in prompts]
        result = {**result, "input_lens": lens, "generated_texts": texts, "errors": errors}
    with Path(args.output_file).open("a") as handle:
        handle.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
