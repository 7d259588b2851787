"""The report writes what it says and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pieces import level, piece

from benchmarks import report

PIECE = piece(
    *(
        level(c, r, plain=100 * c, v1_static=90 * c, v1_lazy=98 * c, v2_static=110 * c, v2_lazy=109 * c)
        for c in (1, 8)
        for r in (0, 1)
    )
)


def write(folder: Path) -> Path:
    path = folder / "levels-20261129T150000.json"
    path.write_text(json.dumps(PIECE))
    return path


def test_the_report_leaves_a_result_with_levels_a_plot_and_the_readme_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib (extra: tune)")
    readme = tmp_path / "README.md"
    readme.write_text(f"# t\n{report.BEGIN}\nold\n{report.END}\nrest\n")
    assert report.main([str(write(tmp_path)), "--results", str(tmp_path / "r"), "--readme", str(readme)]) == 0
    result = json.loads((tmp_path / "r" / "0.5.9+specctl.1-nvidia-h200-2026-11-29.json").read_text())
    assert {"release", "gpu", "date", "levels"} <= result.keys()
    assert all(
        {"worker", "concurrency", "plain", "static", "dynamic", "ratio"} <= row.keys()
        for row in result["levels"]
    )
    assert (tmp_path / "r" / "0.5.9+specctl.1-nvidia-h200-2026-11-29.png").stat().st_size > 5000
    text = readme.read_text()
    assert "| 8 | 800 | 720 | 784 | **0.98** | 880 | 872 | **0.99** |" in text
    assert "old" not in text
    for kind in ("png", "md"):
        assert f"(benchmarks/results/0.5.9+specctl.1-nvidia-h200-2026-11-29.{kind})" in text
    assert text.endswith("rest\n")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    assert report.main([str(write(tmp_path)), "--results", str(tmp_path / "r"), "--dry-run"]) == 0
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "text", ["no markers", f"{report.END} {report.BEGIN}", f"{report.BEGIN}{report.BEGIN}{report.END}"]
)
def test_a_readme_without_its_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(SystemExit) as end:
        report.main([str(write(tmp_path)), "--results", str(tmp_path / "r"), "--readme", str(readme)])
    assert end.value.code == 1
    assert readme.read_text() == text
    assert not (tmp_path / "r").exists()
