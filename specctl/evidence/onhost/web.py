"""Runs on the host: HTTP to the server itself, over loopback, with every answer bounded in size and time.

The API key is read here, on the host, from the server's own secret files; it never leaves this process.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import time
import urllib.parse
from typing import Any

ANSWER_LIMIT = 4 << 20  # bytes of an answer that are read
TEXT_LIMIT = 20000  # characters of a text that are reported
KEY_NAMES = ("api-key", "api_key")
ADMIN_NAMES = ("admin-api-key", "admin_api_key")
# where SGLang takes nothing but the admin key, if it has one
ADMIN_PATHS = ("/set_internal_state", "/flush_cache")


def api_key(files: list[str], literal: str | None, names: tuple[str, ...] = KEY_NAMES) -> str | None:
    """The server's API key, or the key of other `names`: as given, or from its file of secret arguments."""
    if literal:
        return literal
    for path in files:
        try:
            with open(path, encoding="utf-8") as handle:
                text = handle.read(1 << 16)
        except (OSError, ValueError):
            continue
        found = key_of(text, names)
        if found is not None:
            return found
    return None


def key_of(text: str, names: tuple[str, ...]) -> str | None:
    """The key in such a file: a JSON object, as a deploy writes it, or rows `api-key: value`."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return next((str(document[name]) for name in names if document.get(name)), None)
    for row in text.splitlines():
        name, colon, value = row.partition(":")
        if colon and name.strip().strip("\"'") in names:
            return unquoted(value.strip())
    return None


def unquoted(value: str) -> str:
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:
            return value.strip('"')
    return value[1:-1].replace("''", "'") if value.startswith("'") and value.endswith("'") else value


class Client:
    """Asks one server. Every method returns a dict with status, error, seconds and json; none raises."""

    def __init__(self, url: str, key: str | None, admin: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.secure = parts.scheme == "https"
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or (443 if self.secure else 80)
        self.key, self.admin = key, admin

    def ask(self, path: str, body: Any = None, timeout_s: float = 30.0) -> dict[str, Any]:
        """One request, given up after timeout_s whatever the server does meanwhile."""
        box: dict[str, Any] = {}
        begin = time.monotonic()
        worker = threading.Thread(target=self._ask, args=(path, body, timeout_s, box), daemon=True)
        worker.start()
        worker.join(timeout_s + 1.0)
        found = dict(box) if not worker.is_alive() else {}
        found.setdefault("status", None)
        found.setdefault("json", None)
        if found["status"] is None and not found.get("error"):
            found["error"] = f"no answer within {timeout_s:g} s"
        found.setdefault("error", None)
        found["seconds"] = time.monotonic() - begin
        return found

    def _ask(self, path: str, body: Any, timeout_s: float, box: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        key = self.admin if self.admin and path.split("?")[0] in ADMIN_PATHS else self.key
        if key:
            headers["Authorization"] = "Bearer " + key
        try:
            connection = self._connection(timeout_s)
            data = None if body is None else json.dumps(body).encode()
            connection.request("GET" if body is None else "POST", path, data, headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_LIMIT + 1)
            connection.close()
            kind = (answer.getheader("Content-Type") or "").split(";")[0]
        except (OSError, http.client.HTTPException, ValueError) as exc:
            box["error"] = reason(exc)
            return
        box["bytes"] = len(content)
        if len(content) > ANSWER_LIMIT:
            box["error"] = f"an answer of more than {ANSWER_LIMIT} bytes"
        elif content:
            try:
                box["json"] = json.loads(content.decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                box["error"] = "no JSON but {}: {!r}".format(
                    kind or "unnamed content",
                    content[:80].decode("ascii", "replace"),
                )
        box["status"] = answer.status

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.secure:
            context = ssl.create_default_context()
            context.check_hostname = False  # loopback: the name of the certificate is the public one
            context.verify_mode = ssl.CERT_NONE
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

    def info(self, timeout_s: float = 20.0) -> dict[str, Any]:
        """What /server_info says that evidence needs, and nothing else of it: it also holds the API key."""
        found = self.ask("/server_info", None, timeout_s)
        if found["status"] == 404:
            found = self.ask("/get_server_info", None, timeout_s)
        found["json"] = picked(found["json"])
        return found

    def generate(self, body: dict[str, Any], timeout_s: float = 60.0) -> dict[str, Any]:
        """One generation; its text (or its token ids, as text) in "text", None when there is none."""
        found = self.ask("/generate", body, timeout_s)
        found["text"] = text_of(found["json"])
        found["detail"] = detail_of(found["json"]) if found["status"] != 200 else None
        found["json"] = None
        return found


def reason(exc: Exception) -> str:
    if isinstance(exc, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(exc, TimeoutError):
        return "no answer in time"
    return (str(exc) or type(exc).__name__)[:300]


PICKED = (
    "version",
    "model_path",
    "device",
    "dtype",
    "disable_cuda_graph",
    "skip_tokenizer_init",
    "speculative_algorithm",
    "tp_size",
    "max_running_requests",
)


def picked(info: Any) -> Any:
    """The few keys of /server_info that are looked at; None when it is no object."""
    if not isinstance(info, dict):
        return None
    out = {k: info.get(k) for k in PICKED if isinstance(info.get(k), (str, int, float, bool))}
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    dynamic = first.get("dynamic_speculation")
    out["state"] = dynamic if isinstance(dynamic, dict) else None
    limit = first.get("effective_max_running_requests_per_dp")
    out["limit"] = limit if isinstance(limit, int) else None
    return out


def text_of(answer: Any) -> str | None:
    """The text of a /generate answer; token ids where the server has no tokenizer; None for anything else."""
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if not isinstance(answer, dict):
        return None
    if isinstance(answer.get("text"), str) and (answer["text"] or "output_ids" not in answer):
        return str(answer["text"])[:TEXT_LIMIT]
    ids = answer.get("output_ids")
    if isinstance(ids, list) and all(isinstance(i, int) for i in ids):
        return " ".join(str(i) for i in ids)[:TEXT_LIMIT]
    return None


def detail_of(answer: Any) -> str | None:
    """What an error answer says."""
    if answer is None:
        return None
    if isinstance(answer, dict):
        for name in ("error", "detail", "message"):
            inner = answer.get(name)
            if isinstance(inner, dict):
                inner = inner.get("message")
            if isinstance(inner, str):
                return inner[:300]
    return json.dumps(answer)[:300]


def client(params: dict[str, Any]) -> Client:
    """params: url, key_files, key."""
    files = list(params.get("key_files") or [])
    return Client(params["url"], api_key(files, params.get("key")), api_key(files, None, ADMIN_NAMES))


def answer(document: Any) -> None:
    """Print the program's answer and leave at once, whatever requests are still under way."""
    print(json.dumps(document), flush=True)
    os._exit(0)
