"""What a sweep says in words, and how its page looks in a real browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specctl.tune.curves import rows
from specctl.tune.model import Mode, contexts_of
from specctl.tune.page import page, svg_element
from specctl.tune.result import Result, conclude
from specctl.tune.values import Values
from tune.planted import crossing_at, samples

BEFORE = Values(16, 14, 4)


def result(**more: Any) -> Result:
    return conclude("gpu-01", "chat", 128, samples(crossing_at(20), **more), BEFORE)


@pytest.mark.parametrize(
    ("more", "verdict", "says"),
    [
        ({"plain": 0.99}, "within", "within 2%"),
        ({"plain": 0.93}, "not within", "NOT within 2%"),
        ({"plain": 1.07}, "not within", "NOT within 2%"),
        ({"plain": 0.99, "noise": 0.2}, "undecided", "do not tell"),
        ({}, "not checked", "NOT CHECKED, no plain server was started"),
    ],
)
def test_off_is_said_to_equal_a_plain_server_or_not_or_that_nobody_looked(
    more: dict[str, float], verdict: str, says: str
) -> None:
    found = result(**more)
    assert found.plain.verdict == verdict
    assert says in found.plain.sentence
    if "plain" in more and "noise" not in more:
        assert found.plain.ratio == pytest.approx(more["plain"], abs=0.01)
    text = page(found, "")
    assert found.plain.sentence[1:] in text
    raw = json.loads(json.dumps(found.as_dict()))["plain_check"]
    assert (raw["verdict"], raw["sentence"]) == (verdict, found.plain.sentence)


def test_one_pair_of_runs_proves_nothing() -> None:
    found = [s for s in samples(crossing_at(20), plain=1.0) if s.mode is not Mode.PLAIN or s.level == 1]
    first = [s for s in found if s.mode is not Mode.PLAIN or s.context == "256 tokens"]
    check = conclude("h", "s", 128, first, BEFORE).plain
    assert (check.verdict, check.error) == ("undecided", None)
    assert "one pair of runs" in check.sentence


def test_workloads_that_cross_elsewhere_are_named() -> None:
    short = samples(crossing_at(30), contexts=("256 tokens",))
    long = samples(crossing_at(6), contexts=("2048 tokens",))
    found = conclude("h", "s", 128, [*short, *long], BEFORE)
    assert any("cross at different places" in note for note in found.notes)
    assert found.by_context["2048 tokens"].at == pytest.approx(6, rel=0.15)
    assert not any("different places" in note for note in result().notes)


def test_too_short_runs_are_said_to_be_so() -> None:
    found = list(samples(crossing_at(20)))
    weak = [s if s.level < 48 else type(s)(**{**s.__dict__, "concurrency": 20.0}) for s in found]
    assert any("at 48, 64 fewer requests" in n for n in conclude("h", "s", 128, weak, BEFORE).notes)


def test_the_result_is_json_and_holds_every_sample() -> None:
    found = result(plain=1.0, threshold=19)
    raw = json.loads(json.dumps(found.as_dict()))
    assert raw["crossover"]["verdict"] == "crosses"
    assert raw["proposal"]["threshold"] == pytest.approx(20, abs=2)
    assert len(raw["samples"]) == len(found.samples)


def test_the_table_has_a_row_for_each_workload_and_level() -> None:
    found = result(threshold=19)
    table = rows(found.samples, contexts_of(found.samples))
    assert len(table) == 18
    assert [float(r[4]) > 1 for r in table[:9]] == [True] * 5 + [False] * 4


def test_names_are_text_on_the_page() -> None:
    found = conclude("<b>h", "s&t", 128, samples(crossing_at(20)), BEFORE)
    text = page(found, "")
    assert "&lt;b&gt;h" in text
    assert "s&amp;t" in text
    assert "<b>h" not in text


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    ("ratio", "says", "band"),
    [(0.8, "Speculation never pays here", "below 1"), (1.3, "Speculation always pays here", "above 64")],
)
def test_the_page_says_when_there_is_nothing_to_switch(
    ratio: float, says: str, band: str, repetitions: int
) -> None:
    found = conclude("h", "s", 128, samples(lambda level: ratio, repetitions=repetitions), BEFORE)
    text = page(found, "")
    assert says in text
    assert f"{band} to" not in text
    assert f" to {band}" not in text
    assert band in text


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (420, False), (1280, True)])
def test_the_page_shows_curves_and_band_in_a_real_browser(tmp_path: Path, width: int, dark: bool) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed (Debian package chromium)")
    pytest.importorskip("matplotlib", reason="the tune extra's matplotlib is not installed")
    from matplotlib.image import imread

    from specctl.tune.plot import BAND, COLOURS, draw

    found = result(plain=0.99, threshold=19)
    file, shot = tmp_path / "report.html", tmp_path / "shot.png"
    file.write_text(page(found, svg_element(draw(found, "svg"))))
    argv = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    argv += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1800", f"--screenshot={shot}"]
    argv += [f"--blink-settings=preferredColorScheme={int(not dark)}"]
    argv += ["--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND", file.as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert shot.exists(), done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    pixels = (imread(shot)[..., :3] * 255).round().astype(int)
    assert pixels.shape[1] == width or width < 500  # the browser has a smallest window

    def count(colour: str, tolerance: int = 12) -> int:
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        return int((abs(pixels - wanted).max(axis=2) <= tolerance).sum())

    for colour in COLOURS.values():
        assert count(colour) > 40, f"the curve in {colour} is not on the page"
    assert count(BAND) > 40
    assert count("#3a3118" if dark else "#f6ecd0") > 1000, "the verdict's box is missing"
    assert count("#161616" if dark else "#ffffff") > pixels.shape[0] * pixels.shape[1] / 4


def test_png_and_svg_are_the_same_for_the_same_samples() -> None:
    pytest.importorskip("matplotlib", reason="the tune extra's matplotlib is not installed")
    from specctl.tune.plot import draw

    assert draw(result(), "png").startswith(b"\x89PNG")
    assert draw(result(), "svg") == draw(result(), "svg")
