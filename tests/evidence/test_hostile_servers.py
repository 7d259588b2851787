"""A port may belong to anything: whatever answers, probes end in time, in bounded memory, with a reason."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specctl.evidence.alive import judge_alive
from specctl.evidence.model import Verdict
from specctl.evidence.onhost import source
from specctl.evidence.onhost.web import picked, text_of
from specctl.release.remote import program_source
from specctl.tune.live import Look
from specctl.tune.onhost import source as tune_source

WAIT_S = 1.0  # what each probe waits for an answer here
MEMORY = 600 << 20  # bytes of address space of a probe that a probe may have, Python itself included

Serve = Callable[[socket.socket], None]


def said(head: str, body: bytes = b"", *, again: bytes = b"", pause_s: float = 0.0) -> Serve:
    """Send a head and a body, then `again` until the other side has had enough."""

    def serve(link: socket.socket) -> None:
        link.sendall(head.replace("\n", "\r\n").encode("latin-1") + body)
        while again:
            link.sendall(again)
            if pause_s:
                time.sleep(pause_s)

    return serve


def silent(link: socket.socket) -> None:
    time.sleep(30)


OK = "HTTP/1.1 200 OK\n"
JSON = "Content-Type: application/json\n"
BOMB = gzip.compress(bytes(64 << 20))
CASES: dict[str, Serve] = {
    "nothing": lambda link: None,
    "silence": silent,
    "half a status line": said("HTTP/1."),
    "no http": said("SSH-2.0-OpenSSH_9.2\n"),
    "binary": said("", bytes(range(256)) * 20),
    "a status that is no number": said("HTTP/1.1 abc OK\n\n"),
    "a redirect to itself": said("HTTP/1.1 302 Found\nLocation: /health\nContent-Length: 0\n\n"),
    "a redirect elsewhere": said("HTTP/1.1 307 X\nLocation: http://192.0.2.1/\nContent-Length: 0\n\n"),
    "html": said(f"{OK}Content-Type: text/html\nContent-Length: 20\n\n", b"<html>hello</html>  "),
    "an empty body": said(f"{OK}Content-Length: 0\n\n"),
    "a body shorter than it says": said(f"{OK}{JSON}Content-Length: 9999\n\n", b'{"a": 1'),
    "a length below zero": said(f"{OK}{JSON}Content-Length: -5\n\n", b"x", again=b"x" * 65536),
    "a length that is no number": said(f"{OK}Content-Length: many\n\n", b"{}"),
    "a body without end": said(f"{OK}{JSON}\n", b'{"a": "', again=b"a" * 65536),
    "a chunk without end": said(f"{OK}Transfer-Encoding: chunked\n\n", b"ffffffff\r\n", again=b"a" * 65536),
    "a chunk below zero": said(f"{OK}Transfer-Encoding: chunked\n\n", b"-5\r\n", again=b"a" * 65536),
    "a chunk that is cut": said(f"{OK}Transfer-Encoding: chunked\n\n", b"ff\r\n{}"),
    "a chunk of nonsense": said(f"{OK}Transfer-Encoding: chunked\n\n", b"zz\r\n{}\r\n0\r\n\r\n"),
    "headers without end": said(OK, again=b"X-A: b\r\n"),
    "one endless header": said(f"{OK}X-A: ", again=b"b" * 65536),
    "continue for ever": said("", again=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a byte at a time": said(f"{OK}{JSON}Content-Length: 100\n\n", again=b" ", pause_s=0.2),
    "a head a byte at a time": said("HTTP/1.1 200 ", again=b"O", pause_s=0.2),
    "a gzip bomb": said(f"{OK}{JSON}Content-Encoding: gzip\nContent-Length: {len(BOMB)}\n\n", BOMB),
    "deep json": said(f"{OK}{JSON}Content-Length: 200000\n\n", b"[" * 200_000),
    "a number without end": said(f"{OK}{JSON}Content-Length: 200000\n\n", b"9" * 200_000),
    "a list": said(f"{OK}{JSON}Content-Length: 6\n\n", b"[1, 2]"),
    "null": said(f"{OK}{JSON}Content-Length: 4\n\n", b"null"),
    "not a number": said(f"{OK}{JSON}Content-Length: 3\n\n", b"NaN"),
    "500 and html": said("HTTP/1.1 500 X\nContent-Length: 6\n\n", b"<html>"),
}


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """The URL of something that accepts connections and does `serve` with each."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    over = threading.Event()

    def one(link: socket.socket) -> None:
        with link:
            try:
                link.settimeout(20)
                link.recv(65536)
                serve(link)
            except OSError:
                return

    def accept() -> None:
        while not over.is_set():
            try:
                link, _ = listener.accept()
            except OSError:
                continue
            threading.Thread(target=one, args=(link,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        thread.join(5)
        listener.close()


def probe(program: str, params: dict[str, Any]) -> tuple[Any, float]:
    """Run a program for hosts, with no more than so much memory: its answer, and seconds."""
    code = (
        "import json, resource, sys\n"
        "source, params = json.load(sys.stdin)\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
        "exec(compile(source, 'program', 'exec'), {'__name__': '__main__', 'params': params})\n"
    )
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps([program, params]).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), time.monotonic() - begin


PROBES: dict[str, tuple[str, dict[str, Any]]] = {
    "alive": (source("web", "alive"), {"health_s": WAIT_S, "generate_s": WAIT_S}),
    "ready": (source("web", "ready"), {"wait_s": WAIT_S}),
    "gate": (program_source("ready"), {"wait_s": WAIT_S}),
    "switch": (tune_source("switch", "ask"), {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["alive", "gate"])
def test_whatever_answers_a_probe_ends_in_time_and_in_bounded_memory(kind: str, name: str) -> None:
    program, params = PROBES[kind]
    with server(CASES[name]) as url:
        answer, seconds = probe(program, {**params, "url": url})
    assert seconds < 30  # a few times WAIT_S, and the start of a Python on a loaded machine
    assert isinstance(answer, dict)
    if kind == "alive":
        told = judge_alive(answer["health"], answer["generation"], url=url)
        assert told.verdict is not Verdict.PASS
        assert len(told.seen) < 1000
    else:
        assert isinstance(answer["status"], int)
        assert isinstance(answer["why"], str)
        assert len(answer["why"]) < 1000


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    asked = threading.Event()

    def elsewhere(link: socket.socket) -> None:
        asked.set()
        said(f"{OK}Content-Length: 2\n\n", b"{}")(link)

    with server(elsewhere) as other:
        head = f"HTTP/1.1 302 Found\nLocation: {other}/health\nContent-Length: 0\n\n"
        with server(said(head)) as url:
            for program, params in PROBES.values():
                answer, _ = probe(program, {**params, "url": url})
                assert answer.get("status") != 200
    assert not asked.is_set()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "output_ids", "internal_states", "dynamic_speculation", "error", "x"]),
            inner,
        )
    ),
    max_leaves=10,
)
lenient = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@given(value=json_values)
@lenient
def test_any_json_of_a_server_is_read(value: Any) -> None:
    info = picked(value)
    assert info is None or isinstance(info["state"], (dict, type(None)))
    assert isinstance(text_of(value), (str, type(None)))


@given(value=json_values, ranks=json_values)
@lenient
def test_any_look_at_a_switch_is_a_look(value: Any, ranks: Any) -> None:
    look = Look.from_json({"at": value, "error": value, "ranks": ranks, "device": value, "graphs": value})
    assert isinstance(look.states, list)
    assert isinstance(look.limit, (int, type(None)))
    assert isinstance(look.tokens_per_s, (float, int, type(None)))
    assert look.same_everywhere in (True, False)


@given(value=json_values)
@lenient
def test_any_answer_of_the_probe_is_judged(value: Any) -> None:
    raw = value if isinstance(value, dict) else {"status": value}
    judge_alive(raw, {"status": 200, **raw}, url="http://x")
