"""A small HTTP client for one SGLang server; standard library only, usable from many threads."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class Refused(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status, self.text = status, text


@dataclass(frozen=True)
class Request:
    """One generation: greedy, and as long as asked for, unless `sampling` says otherwise."""

    rid: str
    prompt: tuple[int, ...]  # token ids
    tokens: int  # max_new_tokens
    sampling: dict[str, Any] = field(default_factory=dict, hash=False)
    options: dict[str, Any] = field(default_factory=dict, hash=False)  # return_logprob and the like

    def body(self) -> dict[str, Any]:
        greedy = {"temperature": 0, "ignore_eos": True, "max_new_tokens": self.tokens}
        return {
            "rid": self.rid,
            "input_ids": list(self.prompt),
            "sampling_params": {**greedy, **self.sampling},
            **self.options,
        }


@dataclass(frozen=True)
class Answer:
    """What came back for one request."""

    tokens: list[int]
    finish: str  # length, stop, abort
    meta: dict[str, Any]

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Answer:
        return cls(raw["output_ids"], raw["meta_info"]["finish_reason"]["type"], raw["meta_info"])


class Client:
    """Talks to 127.0.0.1:port. `timeout_s` bounds the silence between two parts of an answer."""

    def __init__(self, port: int, timeout_s: float = 120) -> None:
        self.port, self.timeout_s = port, timeout_s

    @contextmanager
    def _response(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status >= 400:
                raise Refused(response.status, response.read().decode("utf-8", "replace"))
            yield response
        finally:
            connection.close()

    def text(self, path: str, body: Any = None) -> str:
        with self._response("GET" if body is None else "POST", path, body) as response:
            return response.read().decode()

    def json(self, path: str, body: Any = None) -> Any:
        return json.loads(self.text(path, body))

    def generate(self, request: Request) -> Answer:
        return Answer.of(self.json("/generate", request.body()))

    def stream(self, request: Request, on_tokens: Callable[[int], None]) -> Answer:
        """Generate with streaming; `on_tokens` gets the number of tokens so far with every part."""
        last: dict[str, Any] = {}
        with self._response("POST", "/generate", {**request.body(), "stream": True}) as response:
            for line in response:
                if line.startswith(b"data: {"):
                    last = json.loads(line[len(b"data: ") :])
                    if "error" in last:
                        raise Refused(200, json.dumps(last["error"]))
                    on_tokens(last["meta_info"]["completion_tokens"])
        if not last or last["meta_info"]["finish_reason"] is None:
            raise ConnectionError(f"the stream of {request.rid} broke off")
        return Answer.of(last)
