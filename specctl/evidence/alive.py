"""Evidence 5: alive. A health check that generates, and a real generation: healthy ones were seen to hang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specctl.evidence.model import Evidence, Kind, Verdict
from specctl.evidence.onhost import source
from specctl.host.protocol import Host

HEALTH_S = 25.0  # the server's own limit is 20 s
GENERATE_S = 60.0

Answer = Mapping[str, Any]


def look_alive(
    host: Host, url: str, *, key_files: list[str], key: str | None, sudo: bool
) -> dict[str, Answer | None]:
    """Ask the server from its own host: {"health", "generation", "info"}, None for what was not asked."""
    params: dict[str, object] = {
        "url": url,
        "key_files": key_files,
        "key": key,
        "health_s": HEALTH_S,
        "generate_s": GENERATE_S,
    }
    raw = host.script(source("web", "alive"), params, sudo=sudo, timeout_s=HEALTH_S + 3 * GENERATE_S)
    raw = raw if isinstance(raw, dict) else {}
    return {name: raw.get(name) for name in ("health", "generation", "info")}


def judge_alive(health: Answer | None, generation: Answer | None, *, url: str) -> Evidence:
    """What /health_generate and one /generate said. Any types in the answers are borne."""
    expected = "/health_generate 200, and a generation that is not empty"
    logs = "the cause is in its log: specctl logs"

    def verdict(verdict: Verdict, code: str, seen: str, hint: str | None = logs) -> Evidence:
        return Evidence(Kind.ALIVE, verdict, code, expected, seen, url, hint)

    health = health or {}
    status, error = health.get("status"), health.get("error")
    if status is None:
        return verdict(Verdict.FAIL, "health-no-answer", f"/health_generate: {error or 'not asked'}")
    if status == 503:
        return verdict(Verdict.FAIL, "health-not-ready", "/health_generate 503: starting, stopping, or stuck")
    if status != 200:
        return verdict(Verdict.FAIL, "health-failed", f"/health_generate {status}")
    generation = generation or {}
    status, error = generation.get("status"), generation.get("error")
    if status is None:
        code = "generation-no-answer"
        return verdict(Verdict.FAIL, code, f"healthy, but /generate: {error or 'not asked'}")
    if status in (401, 403):
        hint = "the API key on the host is not the server's: deploy again, so that both come from one source"
        return verdict(
            Verdict.FAIL, "generation-refused", f"/generate {status}: the API key is refused", hint
        )
    if status != 200:
        detail = generation.get("detail") or error or ""
        return verdict(Verdict.FAIL, "generation-failed", f"/generate {status} {detail}".strip())
    text = generation.get("text")
    if not isinstance(text, str):
        seen = f"/generate 200 with {error or 'an answer of an unknown shape'}"
        return verdict(
            Verdict.FAIL, "generation-unreadable", seen, "is another program listening on this port?"
        )
    if not text:
        return verdict(Verdict.FAIL, "generation-empty", "/generate 200 with an empty text")
    seconds = generation.get("seconds")
    took = f" in {seconds:.1f} s" if isinstance(seconds, (int, float)) else ""
    return verdict(Verdict.PASS, "alive", f"healthy; generated {_short(text)}{took}", None)


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return f"'{shown[:40]}{'...' if len(shown) > 40 else ''}'"
