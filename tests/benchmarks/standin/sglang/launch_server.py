"""Answers like SGLang's server, without a model: one decode step at a time for all running requests.

Text follows from the prompt alone. With a draft a step gives 1 + DRAFT_HITS tokens, and one while the batch
is larger than the threshold. `--die-at N`: exit in the N-th step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from typing import Any

from aiohttp import web

STEP_S = 0.002
DRAFT_HITS = 2


def text(prompt: list[int], place: int) -> int:
    return (sum(prompt[:8]) * 31 + (place + len(prompt)) * 7) % 97


class Engine:
    def __init__(self, args: argparse.Namespace) -> None:
        self.draft = args.speculative_algorithm is not None
        self.threshold = args.speculative_disable_batch_threshold
        self.die_at = args.die_at
        self.rows: list[dict[str, Any]] = []
        self.state = {
            "state": "on",
            "threshold": self.threshold,
            "switches": 0,
            "on_steps": 0,
            "off_steps": 0,
        }
        self.steps = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            if not self.rows:
                continue
            self.steps += 1
            if self.steps == self.die_at:
                os._exit(9)
            batch = len(self.rows)
            off = self.threshold is not None and batch > self.threshold
            now = "off" if off else "on"
            if self.threshold is not None and now != self.state["state"]:
                self.state["state"] = now
                self.state["switches"] += 1
                print(f"Dynamic speculation: {now}, batch {batch}", flush=True)
            self.state[f"{now}_steps"] += 1
            for row in list(self.rows):
                gain = 1 if off or not self.draft else 1 + DRAFT_HITS
                gain = min(gain, row["limit"] - len(row["output"]))
                start = len(row["output"])
                row["output"] += [text(row["ids"], p) for p in range(start, start + gain)]
                if self.draft and not off:
                    row["verify"] += 1
                    row["accepted"] += gain - 1
                row["queue"].put_nowait(start)
                if len(row["output"]) == row["limit"]:
                    self.rows.remove(row)
            speed = batch / STEP_S
            print(
                f"Decode batch, #running-req: {batch}, #token: 1, cuda graph: True, "
                f"gen throughput (token/s): {speed:.2f}, #queue-req: 0",
                flush=True,
            )

    def add(self, body: dict[str, Any]) -> dict[str, Any]:
        row = {
            "ids": body["input_ids"],
            "limit": body["sampling_params"]["max_new_tokens"],
            "output": [],
            "verify": 0,
            "accepted": 0,
            "queue": asyncio.Queue(),
        }
        print("Prefill batch, #new-seq: 1", flush=True)
        self.rows.append(row)
        return row


def meta(row: dict[str, Any]) -> dict[str, Any]:
    found = {"completion_tokens": len(row["output"]), "finish_reason": {"type": "length"}}
    if row["verify"] and len(row["output"]) == row["limit"]:
        found |= {"spec_verify_ct": row["verify"], "spec_accept_token_num": row["accepted"]}
    return found


async def generate(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    row = request.app["engine"].add(body)
    if not body.get("stream"):
        while len(row["output"]) < row["limit"]:
            await row["queue"].get()
        return web.json_response({"output_ids": row["output"], "meta_info": meta(row)})
    reply = web.StreamResponse()
    await reply.prepare(request)
    sent = 0
    while sent < row["limit"]:
        await row["queue"].get()
        piece = {"output_ids": row["output"], "meta_info": meta(row)}
        sent = len(row["output"])
        await reply.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
    await reply.write(b"data: [DONE]\n\n")
    return reply


async def info(request: web.Request) -> web.Response:
    engine = request.app["engine"]
    state = {
        "memory_usage": {},
        **({"dynamic_speculation": engine.state} if engine.threshold is not None else {}),
    }
    return web.json_response({"version": "0.5.9+standin", "internal_states": [state]})


async def health(_: web.Request) -> web.Response:
    return web.Response()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--speculative-disable-batch-threshold", type=int)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--refuse", action="store_true")
    args, _ = parser.parse_known_args()
    if args.refuse:
        sys.exit("ValueError: this flag is refused")
    print(f"started {time.time()}", flush=True)
    app = web.Application()
    app["engine"] = Engine(args)
    app.add_routes(
        [web.post("/generate", generate), web.get("/server_info", info), web.get("/health", health)]
    )

    async def begin(app: web.Application) -> None:
        app["task"] = asyncio.create_task(app["engine"].run())

    app.on_startup.append(begin)
    web.run_app(app, host="127.0.0.1", port=args.port, print=None)


if __name__ == "__main__":
    main()
