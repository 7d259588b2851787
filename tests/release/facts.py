"""HostFacts from a few words, for tests of plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from config.builders import make_host, make_server

from specctl.build.distribution import Distribution
from specctl.config.model import EnvironmentKind, Supervisor
from specctl.evidence.model import Expectation
from specctl.release.actions.upload import Push
from specctl.release.deploy_plan import HostFacts, Installer, Source
from specctl.release.state import Deadman, Good, HostState, Pending, ReleaseState, ServerRecord
from specctl.release.switch_plan import ServerFacts
from specctl.release.units import unit_as_dict, unit_of
from specctl.service.protocol import Unit

IDS = {letter: f"0.5.9+specctl.{n}-{n:08x}" for n, letter in enumerate("ABCDN", 1)}
WANTED = "wanted-unit"

DISTRIBUTION = Distribution(
    version="0.5.9+specctl.5",
    wheel="sglang-0.5.9+specctl.5-py3-none-any.whl",
    wheel_sha256="1" * 64,
    base_version="0.5.9",
    base_sha256="2" * 64,
    overlays=(),
    files={"sglang/a.py": "3" * 64},
    locks={"cuda": "lock-cuda.txt"},
    tool_version="0",
)


def letters(text: str) -> str:
    """A text with release ids as the letters that cases use."""
    for letter, release in IDS.items():
        text = text.replace(release, letter)
    return text


def expectation(case: Mapping[str, Any], server: str = "main") -> Expectation:
    return Expectation(
        server=server,
        distribution=DISTRIBUTION.version,
        files=DISTRIBUTION.files,
        worker=case.get("worker", "EAGLEWorker"),
        threshold=case.get("threshold", 16),
        problems=tuple(case.get("problems", ())),
        url="http://127.0.0.1:30000",
        covers=tuple(case.get("covers", ("EAGLEWorker", "EAGLEWorkerV2"))),
    )


def good(letter: str, secrets: str | None, unit: Unit) -> Good:
    kept = {**unit_as_dict(unit), "text": f"unit of {letter}"}
    return Good(
        IDS[letter], WANTED, "2026-01-01T00:00:00Z", "ada@desk", "r1", secrets, kept, asdict(expectation({}))
    )


def state_of(case: Mapping[str, Any], unit: Unit) -> HostState:
    secrets = case.get("secrets", {})
    record = ServerRecord(
        "main",
        current=IDS[case["current"]] if "current" in case else None,
        goods=tuple(good(g, secrets.get("good"), unit) for g in case.get("goods", ())),
        unit_sha256={"same": WANTED, "other": "other", "none": None}[
            case.get("unit", "same" if "current" in case else "none")
        ],
        secrets=secrets.get("host"),
    )
    releases = {
        IDS[letter]: ReleaseState(
            IDS[letter],
            complete=word != "half",
            failed="it failed" if word == "failed" else None,
            version=IDS[letter].split("-")[0],
            completed_at=float(number),
        )
        for number, (letter, word) in enumerate(case.get("releases", {}).items())
    }
    raw = case.get("pending")
    return HostState(
        exists=bool(case.get("releases")),
        salt="salt",
        releases=releases,
        servers={"main": record} if "current" in case else {},
        pending=Pending("r0", "deploy", IDS[raw["release"]], "ada@desk", "t", "j", raw["step"])
        if raw
        else None,
        deadman=Deadman("r0", raw["deadman"]) if raw else None,
        supervisor=case.get("supervisor") == "there",
        wheels={n: f"{n}-sha" for n, word in case.get("wheelhouse", {}).items() if word == "there"},
    )


def host_facts(case: Mapping[str, Any]) -> HostFacts:
    server = make_server()
    adopted = case.get("environment") == "adopted"
    config = make_host("gpu-01", server, keep_releases=case.get("keep", 9))
    if adopted:
        config = replace(config, environment=EnvironmentKind.ADOPTED, adopt="/opt/env")
    if case.get("wheelhouse"):
        config = replace(config, wheelhouse="/home/ada/wheels")
    if case.get("supervisor"):
        config = replace(config, supervisor=Supervisor.SUPERVISOR)
    unit = unit_of(config, server)
    facts = ServerFacts(
        config=server,
        unit=unit,
        unit_text="unit of N",
        unit_sha256=WANTED,
        secrets=case.get("secrets", {}).get("wanted"),
        expectation=expectation(case),
        running=case.get("running", "current" in case),
    )
    push = Push("/home/ada/uv", "/opt/specctl/bin/uv-1", "4" * 64, 10) if case.get("push_uv") else None
    return HostFacts(
        config, state_of(case, unit), (facts,), Installer("/usr/bin/uv", push), free_bytes=case.get("free")
    )


def source(case: Mapping[str, Any]) -> Source:
    names = ("dist.json", DISTRIBUTION.wheel, "lock.txt")
    wheels = tuple(Push(f"/home/ada/wheels/{n}", n, f"{n}-sha", 5) for n in case.get("wheelhouse", {}))
    return Source(DISTRIBUTION, tuple(Push(f"/home/ada/{n}", n, "5" * 64, 100) for n in names), 3, wheels)
