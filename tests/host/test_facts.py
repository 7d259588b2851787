"""Facts from odd answers: never a traceback, and null where something could not be found out."""

from __future__ import annotations

from typing import Any

import pytest
from config.builders import make_host, make_server

from specctl.host.errors import HostError
from specctl.host.facts import draft_of, gather, parse
from specctl.host.fake import ScriptedHost
from specctl.host.local import LocalHost

LEAST: dict[str, Any] = {"user": "ann", "uid": 1000, "sudo": "works", "clock": 1010.0, "host_python": "3.6.9"}


def test_the_least_answer_is_enough() -> None:
    facts = parse("h", LEAST, asked=1000.0, answered=1002.0)
    assert (facts.skew_s, facts.skew_error_s) == (9.0, 1.0)
    assert (facts.glibc, facts.gpus, facts.folders, facts.problems) == (None, None, (), ())
    assert facts.folder("root") is None
    assert facts.model(None) is None


def test_parts_that_could_not_be_read_are_empty() -> None:
    parts = (
        "system",
        "pythons",
        "folders",
        "services",
        "gpus",
        "tools",
        "ports",
        "releases",
        "servers",
        "models",
    )
    raw = {**LEAST, **dict.fromkeys(parts), "problems": ["folders: PermissionError: x"]}
    facts = parse("h", raw, asked=0, answered=0)
    assert facts.problems == ("folders: PermissionError: x",)
    assert facts.releases == ()


@pytest.mark.parametrize(
    "raw", [None, [], "text", {}, {**LEAST, "clock": "x"}, {**LEAST, "pythons": [{"odd": 1}]}]
)
def test_an_answer_that_is_no_facts_is_said(raw: object) -> None:
    with pytest.raises(HostError, match="no facts") as caught:
        parse("h", raw, asked=0, answered=0)
    assert caught.value.context["host"] == "h"


def test_numbers_that_nvidia_smi_does_not_know_are_none() -> None:
    row = {
        "index": "0",
        "name": "A",
        "memory.total": "[N/A]",
        "memory.used": "12",
        "driver_version": "1",
        "compute_cap": "[N/A]",
    }
    (gpu,) = parse("h", {**LEAST, "gpus": [row]}, asked=0, answered=0).gpus or ()
    assert (gpu.memory_mib, gpu.used_mib, gpu.compute) == (None, 12, None)


def test_one_call_asks_for_everything_that_the_inventory_names() -> None:
    host = ScriptedHost("gpu-01")
    host.on_script("releases", LEAST)
    config = make_host(
        "gpu-01", make_server(), adopt="/opt/venv/", root="/srv/s", sudo=True, python="python3.12"
    )
    assert gather(host, config, clock=lambda: 1000.0).user == "ann"
    (call,) = host.calls
    assert call.params == {
        "root": "/srv/s",
        "python": ["python3.12", "/opt/venv/bin/python"],
        "sudo": True,
        "models": ["/models/draft", "/models/target"],
        "temporary": ["/tmp"],
    }
    assert not call.sudo


def test_this_machine_can_be_looked_at(tmp_path: Any) -> None:
    facts = gather(LocalHost("me"), make_host(root=str(tmp_path / "root")))
    root = facts.folder("root")
    assert root is not None
    assert not root.exists
    assert root.free_bytes > 0
    assert facts.python("python3") is not None


def test_the_temporary_folder_is_the_one_that_a_server_will_use(tmp_path: Any) -> None:
    server = make_server(env={"TMPDIR": str(tmp_path)})
    facts = gather(LocalHost("me"), make_host("me", server, root=str(tmp_path / "root")))
    assert [f.path for f in facts.folders if f.purpose == "temporary"] == [str(tmp_path)]


@pytest.mark.parametrize(
    ("args", "draft"),
    [
        ((), None),
        (("--speculative-draft-model-path", "/d"), "/d"),
        (("--speculative-draft-model-path=/d",), "/d"),
        (("--speculative-draft-model", "/d"), "/d"),
        (("--speculative-draft-model-path",), None),
    ],
)
def test_the_draft_is_found_however_it_is_written(args: tuple[str, ...], draft: str | None) -> None:
    assert draft_of(make_server(args=args)) == draft
