"""The stand-in SGLang server: argument parsing, life cycle and the HTTP endpoints."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .engine import Engine, say, write
from .knobs import BAKED, Knobs

TRUE = ("1", "true", "yes", "y")


def parse(argv: list[str]) -> argparse.Namespace:
    """The few of SGLang's arguments that matter here; the rest is accepted and ignored."""
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("--model-path", "--model", default="")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=30000)
    p.add_argument("--tensor-parallel-size", "--tp-size", "--tp", dest="tp", type=int, default=1)
    p.add_argument("--api-key")
    p.add_argument("--admin-api-key")
    p.add_argument("--max-running-requests", type=int)
    p.add_argument("--disable-cuda-graph", action="store_true")
    p.add_argument("--skip-tokenizer-init", action="store_true")
    p.add_argument("--speculative-algorithm")
    p.add_argument("--speculative-disable-batch-threshold", dest="disable_threshold", type=int)
    p.add_argument("--speculative-resume-batch-threshold", dest="resume_threshold", type=int)
    p.add_argument("--speculative-resume-steps", dest="resume_steps", type=int)
    p.add_argument("--speculative-disable-draft-sync", dest="draft_sync")
    args, _ = p.parse_known_args(from_config(argv) + argv)
    return args


def from_config(argv: list[str]) -> list[str]:
    """The arguments of `--config FILE`: a JSON object, or lines `name: value`, the value in JSON or bare."""
    if "--config" not in argv[:-1]:
        return []
    text = Path(argv[argv.index("--config") + 1]).read_text(encoding="utf-8")
    if text.startswith("{"):
        return [word for name, value in json.loads(text).items() for word in ("--" + name, str(value))]
    found: list[str] = []
    for row in text.splitlines():
        name, _, value = row.partition(":")
        value = value.strip()
        found += ["--" + name.strip(), json.loads(value) if value.startswith('"') else value]
    return found


def selected_worker(args: argparse.Namespace) -> str:
    """The worker class that 0.5.9 would run; "" without speculation."""
    if (args.speculative_algorithm or "").upper() not in ("EAGLE", "EAGLE3"):
        return ""
    v2 = os.environ.get("SGLANG_ENABLE_SPEC_V2", "").lower() in TRUE
    return "EAGLEWorkerV2" if v2 else "EAGLEWorker"


def print_markers(args: argparse.Namespace, knobs: Knobs, engine: Engine) -> None:
    """The overlay's line at worker init, one per rank, with whatever is wrong with it."""
    if not engine.switching or knobs.no_marker:
        return
    time.sleep(knobs.marker_delay_s)
    threshold = engine.threshold if knobs.marker_threshold < 0 else knobs.marker_threshold
    for rank in range(args.tp):
        if rank == knobs.marker_missing_rank:
            continue
        text = (
            f"{knobs.marker_text}: worker={knobs.marker_worker or engine.worker}"
            f" algorithm={args.speculative_algorithm} threshold={threshold} resume={engine.resume}"
            f" resume_steps={engine.resume_steps} draft_sync={engine.draft_sync}"
            f" tp_rank={rank} tp_size={args.tp}"
        )
        prefix = rank if args.tp > 1 else None
        if knobs.not_utf8:
            write(b"\x1b[31mcaf\xe9\x1b[0m \xf0\x9f\x9a\x80 loading\r100%\r", prefix)
            write(text.encode() + b" model=caf\xe9", prefix)
        else:
            say(text, prefix)


class Handler(BaseHTTPRequestHandler):
    """One connection. `server.site` is the running Site."""

    protocol_version = "HTTP/1.0"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.route(None)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            self.answer(400, {"error": "not JSON"})
            return
        self.route(body)

    def route(self, body: Any) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        path, knobs = self.path.split("?")[0], site.knobs
        time.sleep(knobs.slow_s)
        open_path = path in ("/health", "/health_generate", "/metrics")
        # as the real one: its admin key, where it has one, is the only one that changes it
        admin = site.args.admin_api_key if path in ("/set_internal_state", "/flush_cache") else None
        key = admin or site.args.api_key
        if key and not open_path and self.headers.get("Authorization") != "Bearer " + key:
            self.answer(401, {"error": "Unauthorized"})
        elif path in ("/health", "/health_generate"):
            self.send_response(200 if site.healthy and not site.leaving else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif (path == "/server_info" and not knobs.only_old_info) or path == "/get_server_info":
            self.answer(200, site.info())
        elif path == "/generate" and isinstance(body, dict):
            self.generate(site, body)
        elif path == "/set_internal_state" and isinstance(body, dict) and not knobs.no_live:
            if site.engine.changes == knobs.live_changes:
                self.answer(400, {"detail": "stand-in takes no more changes, on purpose"})
                return
            ok = site.engine.set(dict(body.get("server_args") or {}))
            self.answer(200 if ok else 400, [ok])
        else:
            self.answer(404, {"detail": "Not Found"})

    def generate(self, site: Site, body: dict[str, Any]) -> None:
        prompt = body.get("text")
        if prompt is not None and site.args.skip_tokenizer_init:
            self.answer(400, {"error": {"message": "the engine has no tokenizer; pass input_ids"}})
            return
        if prompt is None:
            prompt = " ".join(str(i) for i in body.get("input_ids") or [])
        params = body.get("sampling_params") or {}
        request = site.engine.submit(str(prompt), int(params.get("max_new_tokens", 16)))
        request.done.wait()
        words = [] if site.knobs.empty_text else request.out
        meta = {"completion_tokens": len(words), "finish_reason": {"type": "length"}, "id": "standin"}
        if site.args.skip_tokenizer_init:
            self.answer(200, {"output_ids": [int(w[1:]) for w in words], "meta_info": meta})
        else:
            self.answer(200, {"text": " ".join(words), "meta_info": meta})

    def answer(self, status: int, document: Any) -> None:
        knobs: Knobs = self.server.site.knobs  # type: ignore[attr-defined]
        data, kind = json.dumps(document).encode(), "application/json"
        if knobs.html:
            data, kind = b"<html><body>502 Bad Gateway</body></html>", "text/html"
        elif knobs.wrong_types:
            data = json.dumps([1, None, {"text": 7, "internal_states": "none"}]).encode()
        elif knobs.huge:
            data = b'{"text": "' + b"x" * knobs.huge + b'"}'
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)


class Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True
    allow_reuse_address = True


class Site:
    """A running stand-in."""

    def __init__(self, argv: list[str], knobs: Knobs, version: str) -> None:
        self.args, self.knobs, self.version = parse(argv), knobs, version
        self.healthy = self.leaving = False
        worker = selected_worker(self.args)
        hooked = ("v2" if worker.endswith("V2") else "v1") in knobs.hooks.split(",")
        switching = bool(worker) and hooked and self.args.disable_threshold is not None
        self.engine = Engine(self.args, knobs, worker, switching, say)

    def info(self) -> dict[str, Any]:
        return {
            "model_path": self.args.model_path,
            "disable_cuda_graph": self.args.disable_cuda_graph,
            "device": self.knobs.device,
            "dtype": self.knobs.dtype,
            "api_key": self.args.api_key,
            "admin_api_key": self.args.admin_api_key,
            "skip_tokenizer_init": self.args.skip_tokenizer_init,
            "internal_states": [self.engine.state()],
            "version": self.version,
        }

    def leave(self, *_: Any) -> None:
        if self.knobs.ignore_sigterm:
            say("Received SIGTERM, ignored on purpose")
            return
        self.leaving = True
        say("Received SIGTERM, draining")
        threading.Timer(self.knobs.drain_s, os._exit, (0,)).start()

    def run(self) -> None:
        knobs = self.knobs
        signal.signal(signal.SIGTERM, self.leave)
        # the real one prints its keys too
        keys = f"api_key={self.args.api_key!r}, admin_api_key={self.args.admin_api_key!r}"
        say(f"server_args=stand-in for sglang {self.version}, {keys}, {' '.join(sys.argv[1:])}")
        if knobs.long_line:
            say("x" * knobs.long_line)
        if knobs.die_at_start or self.args.disable_threshold == knobs.die_with_threshold:
            sys.stderr.write(
                "Traceback (most recent call last):\nRuntimeError: stand-in dies at start on purpose\n"
            )
            sys.exit(1)
        if knobs.stray_child:
            code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
            subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print_markers(self.args, knobs, self.engine)
        httpd = Server((self.args.host, self.args.port), Handler)
        httpd.site = self  # type: ignore[attr-defined]
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        time.sleep(knobs.start_s)
        self.healthy = True
        say("The server is fired up and ready to roll!")
        self.live()

    def live(self) -> None:
        """Sit there, and do the timed misdeeds."""
        knobs, started = self.knobs, time.monotonic()
        while True:
            age = time.monotonic() - started
            if knobs.die_after_s and age > knobs.die_after_s:
                say("stand-in dies on purpose")
                os._exit(1)
            if knobs.hang_after_s and age > knobs.hang_after_s:
                self.engine.hung = True
            for i in range(knobs.flood_lines // 10):
                say(f"Decode batch, #running-req: {self.engine.batch}, flood line {i}")
            time.sleep(0.1)


def main(argv: list[str], version: str) -> None:
    """Run until stopped."""
    Site(argv, Knobs.load(baked=Path(__file__).parent / BAKED), version).run()
