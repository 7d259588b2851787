"""The page beside a result: every part that was measured is there to read."""

from __future__ import annotations

from pieces import level, piece

from benchmarks import merge, tables

STEPS = {"on_tokens": 25, "off_tokens": 5, "steps": 10, "accepted": 14, "fresh_steps": 10}
RETURN = {
    "id": "r",
    "kind": "return",
    "rep": 0,
    "servers": {
        "v2-lazy": {
            "pairs": [{**STEPS, "fresh_accepted": 15, "same_text": True}],
            "gaps": [[(5, 1), (12, 3), (7, 2)]],
        }
    },
}
SEEN = {"tok_s": 4000.0, "seconds": 60.0, "switches": 6}
SPREAD = {"p50": 4.5, "p99": 9.25, "max": 31.0}
LOAD = {
    "id": "s",
    "kind": "sweep",
    "hold": None,
    "top": 128,
    "servers": {"v2-lazy": {**SEEN, "itl_ms": SPREAD, "gap_ms": SPREAD}},
}
TEXTS = {
    "id": "i",
    "kind": "identity",
    "concurrency": 8,
    "servers": {"v1-lazy": {"same": 14, "of": 16, "first_difference": [10, 90]}},
}
START = {
    **level(1, 0, v2_lazy=100),
    "started_s": 41.5,
    "used_mib_before": 0,
    "used_mib_after": 30_000,
}


def page() -> str:
    blocks = [level(c, 0, plain=100, v2_static=90, v2_lazy=99, v2_warm=95) for c in (8, 64)]
    other = {**piece()["setup"], "backend": "fa3"}
    return tables.page(
        merge.merge(
            [
                piece(*blocks, errors=["v1-lazy is gone: ServerError\nand where"]),
                piece(*blocks, experiment="policies"),
                piece(*blocks, experiment="fa3", setup=other),
                piece(RETURN, experiment="return"),
                piece(LOAD, {**LOAD, "kind": "hold", "hold": 24}, experiment="sweep"),
                piece(TEXTS, experiment="identity"),
                piece(START, experiment="startup"),
            ]
        )
    )


def test_every_part_that_was_measured_has_a_table() -> None:
    text = page()
    assert [heading for heading, *_ in tables.PARTS.values() if f"## {heading}\n" not in text] == []
    assert "| v2-lazy | 128 | 64 | 99 | 0.99 | 0.99 |" in text
    assert "| 128 | v2-lazy | 60 | 4000 | 4.5 | 9.25 | 9.25 | 31 | 6 |" in text
    assert "| return | v2-lazy | 1 | 2.4 | 2.5 | 0.96 | 0.96 | 1/1 | 5 | 12 | 7 |" in text
    assert "- `v1-lazy is gone: ServerError`" in text
    assert "and where" not in text


def test_tables_without_rows_and_columns_without_values_are_left_out() -> None:
    text = tables.page(merge.merge([piece(level(8, 0, plain=100, v2_static=90, v2_lazy=99))]))
    assert "## Loads" in text
    assert "## Start" not in text
    assert "went wrong" not in text
    assert "while off" not in text.split("Ratio")[1].split("\n\n")[1]
