"""Where there is nothing to show, that is said, and where it was looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.calling import Call, inventory


@pytest.mark.parametrize(("words", "what"), [((), "run"), (("--releases",), "release")])
def test_a_history_without_a_run_says_so(
    words: tuple[str, ...], what: str, call: Call, tmp_path: Path
) -> None:
    file = inventory(tmp_path / "hosts.yaml", root=str(tmp_path / "root"))
    answer = call("history", "-i", str(file), *words)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"here: no {what} yet; specctl deploy makes the first\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("hosts", "--hosts", "heer"), "did you mean here?"),
        (("hosts", "--group", "east"), "there is no group"),
        (("status", "--server", "mian"), "did you mean main?"),
        (("logs", "mian"), "did you mean main?"),
        (("threshold", "get", "mian"), "did you mean main?"),
    ],
)
def test_a_name_that_the_inventory_lacks_is_told_with_the_file_that_was_read(
    words: tuple[str, ...], says: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory(tmp_path / "hosts.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECCTL_INVENTORY", raising=False)
    answer = call(*words)
    assert answer.code == 2
    assert says in answer.err
    assert "inventory: hosts.yaml" in answer.err
