"""Diffs are read strictly: a diff that lost something is refused, never half applied."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from specctl.overlay.model import split_lines
from specctl.overlay.patch import PatchFormatError, changes_between, format_patch, group_changes, parse_patch
from specctl.overlay.splice import splice

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "overlay-broken-diffs.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_diff_that_is_not_whole_is_refused(case):
    with pytest.raises(PatchFormatError) as caught:
        parse_patch(case["diff"].encode())
    assert case["says"] in str(caught.value)


BASES = {
    "plain": (b"".join(b"%d\n" % i for i in range(40)), {3: b"new\n", 20: b"", 39: b"39\nmore\n"}),
    "crlf": (b"".join(b"%d\r\n" % i for i in range(20)), {3: b"new\r\n", 12: b""}),
    "mixed line ends": (b"a\r\nb\nc\rd\ne\n", {1: b"B\n", 2: b"c\rD\n"}),
    "no end of line at the end": (b"a\nb\nc", {0: b"A\n", 2: b"C"}),
    "an end of line comes": (b"a\nb", {1: b"b\n"}),
    "an end of line goes": (b"a\nb\n", {1: b"b"}),
    "latin-1 bytes": (b"# caf\xe9\nx = 1\n", {1: b"x = 2  # \xe8\n"}),
    "lines that look like a diff": (b"--- a\n+++ b\n@@ -1 +1 @@\n-- x\n", {0: b"++ y\n", 3: b"- z\n"}),
    "an empty file": (b"", None),
    "a file that becomes empty": (b"a\n", {0: b""}),
    "form feeds and other line separators": (b"a\x0cb\nc\xe2\x80\xa8d\x85\ne\n", {1: b"C\x1c\n"}),
}


def new_of(base: bytes, replace: dict[int, bytes] | None) -> bytes:
    if replace is None:
        return b"x = 1\ny = 2\n"
    lines = split_lines(base)
    return b"".join(replace.get(i, line) for i, line in enumerate(lines))


@pytest.mark.parametrize("name", BASES)
def test_a_written_diff_makes_the_new_bytes(name):
    base, new = BASES[name][0], new_of(*BASES[name])
    data = format_patch("sglang/a.py", group_changes(base, changes_between(base, new)))
    _, hunks = parse_patch(data)
    assert splice(base, [c for h in hunks for c in h.changes]) == new


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("name", BASES)
def test_git_applies_a_written_diff_to_the_same_bytes(name, tmp_path):
    base, new = BASES[name][0], new_of(*BASES[name])
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "a.py").write_bytes(base)
    (tmp_path / "edit.patch").write_bytes(
        format_patch("sglang/a.py", group_changes(base, changes_between(base, new)))
    )
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "edit.patch"]
    subprocess.run(
        command,
        cwd=tmp_path,
        check=True,
        env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "PATH": "/usr/bin:/bin"},
    )
    target = tmp_path / "sglang" / "a.py"
    assert (target.read_bytes() if target.exists() else b"") == new


def test_a_diff_of_gnu_diff_with_text_before_it_and_times_behind_the_names_is_read():
    head = b"diff -u a b\n--- a/sglang/a.py\t2024-01-01 00:00:00\n+++ b/sglang/a.py\t2024-01-02\n"
    data = head + b"@@ -1,1 +1,2 @@ f\n x\n+y\n"
    path, hunks = parse_patch(data)
    assert path == "sglang/a.py"
    assert hunks[0].new == (b"x\n", b"y\n")


def test_changes_keep_three_lines_around_them_and_share_a_hunk_when_near():
    base = b"".join(b"%d\n" % i for i in range(30))
    new = (
        base.replace(b"5\n", b"five\n", 1).replace(b"\n11\n", b"\neleven\n").replace(b"\n20\n", b"\ntwenty\n")
    )
    hunks = group_changes(base, changes_between(base, new))
    assert [(h.start, len(h.old)) for h in hunks] == [(2, 13), (17, 7)]
