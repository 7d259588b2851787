"""A sweep as one self-contained HTML page: no script, no font and no image from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specctl.tune.crossover import Crossover, Verdict
from specctl.tune.curves import columns, rows
from specctl.tune.model import contexts_of
from specctl.tune.recommend import interval
from specctl.tune.result import Result
from specctl.tune.values import Values

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5d5d5d; --line: #dcdcdc; --paper: #fff;
        --band: #f6ecd0; --gain: #f2f8f4; --loss: #fbf3ef; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --soft: #a3a3a3; --line: #3a3a3a; --paper: #161616;
          --band: #3a3118; --gain: #16261c; --loss: #2c1d17; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
       max-width: 76rem; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.verdict { background: var(--band); border-left: 4px solid #d9b44a; padding: .8rem 1rem; margin: 1.2rem 0; }
.verdict strong { font-size: 1.1rem; }
figure { margin: 0; overflow-x: auto; background: #fff; border-radius: 4px; } /* drawn for white */
figure svg { display: block; width: 100%; height: auto; min-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; vertical-align: bottom; } .text { text-align: left; }
tr.faster td { background: var(--gain); } tr.slower td { background: var(--loss); }
code { font: .92em ui-monospace, monospace; } ul { margin: .3rem 0; padding-left: 1.2rem; }
"""
_VERDICTS = {
    Verdict.CROSSES: "Speculation pays, up to a point",
    Verdict.NEVER: "Speculation never pays here",
    Verdict.ALWAYS: "Speculation always pays here",
    Verdict.UNCLEAR: "The measurements do not tell",
}


def page(result: Result, svg: str) -> str:
    """The page. `svg`: the figure, as an <svg> element; "" for none."""
    proposal = result.proposal
    title = f"{result.server} on {result.host}: when to stop speculating"
    contexts = contexts_of(result.samples)
    head = columns(result.samples)
    notes = (result.plain.sentence, *result.notes)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape("; ".join(p for p in (result.taken_at, result.versions) if p))}</p>',
        '<div class="verdict">',
        f"<p><strong>{escape(_VERDICTS[result.overall.verdict])}</strong></p>",
        f"<p>{escape(_sentence(proposal.sentence))}</p>",
        f"<p>Proposed: <strong>{escape(_words(proposal.values))}</strong> "
        f'<span class="soft">(before: {escape(_words(result.before))})</span></p>',
        f"<p>{escape(_sentence(proposal.advice))}</p>" if proposal.advice else "",
        "</div>",
        f"<figure>{svg}</figure>" if svg else "",
        "<h2>What to know about these numbers</h2>",
        "<ul>" + "".join(f"<li>{escape(_sentence(note))}</li>" for note in notes) + "</ul>",
        "<h2>Crossover</h2>",
        _table(("workload", "crossover at", "band", "finding"), _crossovers(result), texts=(0, 2, 3)),
        "<h2>Measurements</h2>",
        '<p class="soft">Green rows: faster with speculation on; red rows: faster with it off. '
        "tok/s: generated tokens a second, all requests together; ms/tok: median over requests; accepted: "
        "tokens a speculative step.</p>",
        _table(head, rows(result.samples, contexts), ratio=head.index("on/off")),
        _how(result),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def svg_element(data: bytes) -> str:
    """An SVG document as an element that can stand inside HTML."""
    text = data.decode("utf-8")
    return text[text.index("<svg") :]


def _crossovers(result: Result) -> list[tuple[str, ...]]:
    found: list[tuple[str, Crossover]] = list(result.by_context.items())
    if len(found) != 1:
        found.append(("all together", result.overall))
    return [
        (name, f"{c.at:.1f}" if c.at is not None else "none", interval(c), _VERDICTS[c.verdict])
        for name, c in found
    ]


def _table(
    columns: Sequence[str],
    body: Sequence[Sequence[str]],
    ratio: int | None = None,
    texts: Sequence[int] = (0,),
) -> str:
    """A table. `ratio`: the column that tints its row; `texts`: columns that are no numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = (' class="text"' if i in texts else "" for i in range(len(row)))
        return "".join(f"<{tag}{m}>{escape(c)}</{tag}>" for m, c in zip(marks, row, strict=True))

    lines = []
    for row in body:
        kind = ""
        if ratio is not None and row[ratio] != "-":
            value = float(row[ratio])
            kind = ' class="faster"' if value > 1 else ' class="slower"' if value < 1 else ""
        lines.append(f"<tr{kind}>{cells('td', row)}</tr>")
    head = f"<thead><tr>{cells('th', columns)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _how(result: Result) -> str:
    repetitions = max((g.repetitions for g in result.overall.gains), default=0)
    tokens = sorted({round(s.input_tokens) for s in result.samples})
    span = f"{tokens[0]} to {tokens[-1]}" if len(tokens) > 1 else f"{tokens[0]}"
    return (
        '<h2>How it was measured</h2><p class="soft">'
        "Load by SGLang's own serving benchmark (sglang.bench_serving) on the host, greedy, prompts of "
        f"{span} tokens. On and off were measured on one running server by setting its threshold, one right "
        f"after the other, {repetitions} pair{'s' if repetitions != 1 else ''} a level. "
        f"{_band(result)}At most {result.limit} requests run at once.</p>"
    )


def _band(result: Result) -> str:
    if not result.overall.has_interval:
        return "With one pair a level there is no interval: the band spans the neighbouring levels. "
    return "The band comes from a bootstrap over the scatter of repetitions. "


def _words(values: Values) -> str:
    return "threshold 0 (never speculate)" if values.threshold == 0 else str(values)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
