"""Runs on the host: is the server healthy, does it generate, and what does it say about itself?"""

from __future__ import annotations

from typing import Any

from specctl.evidence.onhost.web import Client, answer, client

PROMPT = "The capital of France is"
PROMPT_IDS = [11, 29, 47, 83, 101, 17, 61, 5]  # small ids exist in every vocabulary
TOKENS = 8


def body(tokenizer: bool, tokens: int = TOKENS) -> dict[str, Any]:
    """A greedy request of a fixed length."""
    params = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    prompt: dict[str, Any] = {"text": PROMPT} if tokenizer else {"input_ids": PROMPT_IDS}
    return {**prompt, "sampling_params": params}


def look(web: Client, health_s: float, generate_s: float) -> dict[str, Any]:
    """Health, one generation (by token ids where the server has no tokenizer), and /server_info."""
    health = web.ask("/health_generate", None, health_s)
    if health["status"] != 200:
        return {"health": {**health, "json": None}, "generation": None, "info": None}
    info = web.info()
    tokenizer = not (info["json"] or {}).get("skip_tokenizer_init")
    generation = web.generate(body(tokenizer), generate_s)
    if tokenizer and generation["status"] == 400:
        generation = web.generate(body(False), generate_s)
    return {"health": {**health, "json": None}, "generation": generation, "info": info}


if __name__ == "__main__":
    _params = globals()["params"]
    answer(look(client(_params), _params["health_s"], _params["generate_s"]))
