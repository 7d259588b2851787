"""A threshold written into an inventory: the smallest edit, comments kept, nobody else changed unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from specctl.config.inventory import load_inventory
from specctl.config.model import ThresholdPolicy
from specctl.tune.errors import TuneError
from specctl.tune.inventory_edit import Edit, edit_threshold, inventory_files
from specctl.tune.values import Values

ARGS = "args: --speculative-algorithm EAGLE --max-running-requests 200"
NEW = Values(24, 20, 6)

OWN = f"""# fleet
hosts:
  a:  # first
    servers:
      - name: main   # the name
        model: m
        port: 1
        {ARGS}
        threshold:
          disable: 16   # measured in May
          resume: "14"
"""
FLOW = """hosts:
  a:
    servers:
      - {name: main, model: m, port: 1, args: [--speculative-algorithm, EAGLE], threshold: {disable: 16}}
"""
SHARED = f"""defaults:
  server:
    model: m
    {ARGS}
    threshold: {{disable: 16, resume: 15}} # for all
hosts:
  a:
    servers:
      - port: 1
        name: main # here
      - name: other
        port: 2
  b:
    servers:
      - name: main
        port: 1
"""
RANGE = f"""hosts:
  g[1:3]:
    servers:
      - name: main
        model: m
        port: 1
        {ARGS}
        threshold:
          disable: 16"""


def edit(tmp_path: Path, text: str, host: str = "a", values: Values = NEW) -> Edit | None:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(text.encode())
    return edit_threshold([file], host, "main", values, environ={})


def policy(path: Path, host: str, server: str = "main") -> ThresholdPolicy | None:
    inventory = load_inventory(path, environ={})
    return next(s.threshold for h in inventory.hosts for s in h.servers if (h.name, s.name) == (host, server))


def changed_lines(found: Edit) -> list[str]:
    return [x for x in found.diff.splitlines() if x[:1] in "+-" and not x.startswith(("+++", "---"))]


def test_numbers_are_replaced_where_they_stand_and_comments_stay(tmp_path: Path) -> None:
    found = edit(tmp_path, OWN)
    assert found is not None
    assert changed_lines(found) == [
        "-          disable: 16   # measured in May",
        '-          resume: "14"',
        "+          disable: 24   # measured in May",
        "+          resume_steps: 6",
        "+          resume: 20",
    ]
    found.write()
    assert policy(found.path, "a") == ThresholdPolicy(24, 20, 6)


def test_line_ends_of_another_system_are_kept(tmp_path: Path) -> None:
    found = edit(tmp_path, OWN.replace("\n", "\r\n"))
    assert found is not None
    found.write()
    data = found.path.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") == OWN.count("\n") + 1


def test_a_map_in_braces_is_extended_in_its_braces(tmp_path: Path) -> None:
    found = edit(tmp_path, FLOW)
    assert found is not None
    assert "threshold: {disable: 24, resume: 20, resume_steps: 6}}" in found.after


def test_a_shared_policy_is_left_alone_and_the_server_gets_its_own(tmp_path: Path) -> None:
    found = edit(tmp_path, SHARED)
    assert found is not None
    assert found.also == ()
    assert changed_lines(found) == ["+        threshold: {disable: 24, resume: 20, resume_steps: 6}"]
    found.write()
    assert policy(found.path, "a") == ThresholdPolicy(24, 20, 6)
    assert policy(found.path, "a", "other") == policy(found.path, "b") == ThresholdPolicy(16, 15)


def test_hosts_of_a_range_share_the_edit_and_are_named(tmp_path: Path) -> None:
    found = edit(tmp_path, RANGE, "g2", Values(24))
    assert found is not None
    assert found.also == ("g1/main", "g3/main")
    assert found.after.endswith("disable: 24")


def test_nothing_is_edited_when_the_inventory_says_it_already(tmp_path: Path) -> None:
    assert edit(tmp_path, OWN, values=Values(16, 14)) is None


def test_an_edit_is_not_written_over_a_file_that_changed_meanwhile(tmp_path: Path) -> None:
    found = edit(tmp_path, OWN)
    assert found is not None
    found.path.write_text(OWN + "# by a colleague\n")
    with pytest.raises(TuneError, match="changed meanwhile"):
        found.write()
    assert found.path.read_text().endswith("by a colleague\n")


def test_values_that_the_loader_refuses_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="cannot be written into the inventory") as caught:
        edit(tmp_path, OWN, values=Values(500, 1, 1))
    assert "disable: 500" in str(caught.value.hint)


def test_a_folder_is_edited_in_the_file_that_says_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OWN)
    (tmp_path / "b.yaml").write_text(OWN.replace("  a:", "  b:"))
    (tmp_path / "example.yaml").write_text("broken: [")
    found = edit_threshold(inventory_files(tmp_path), "b", "main", NEW, environ={})
    assert found is not None
    assert found.path.name == "b.yaml"
