"""Prompts for the load: shareable ones made here, or the user's own. The same seed gives the same prompts."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specctl.errors import UsageError

WORDS_PER_TOKEN = 0.75  # of English, for the tokenizers of current models; the report says what was measured
MOST_BYTES = 64 << 20

_TASKS = (
    "Summarise the notes above in a few sentences.",
    "Write a letter to a colleague that explains what the notes above say.",
    "List the facts of the notes above, one a line.",
    "Continue the notes above in the same style.",
    "Explain the notes above to a child of ten.",
    "Which of the things in the notes above depend on each other, and how?",
)
_SENTENCES = (
    "The ferry to the northern island leaves at seven and returns before the tide turns.",
    "Our greenhouse grows tomatoes, basil and a lemon tree that has never borne fruit.",
    "The archive keeps every newspaper since 1902 in boxes that are sorted by month.",
    "A good bridge moves a little in the wind, and a bad one does not move until it breaks.",
    "The committee meets on the first Tuesday, unless that is a holiday.",
    "In spring the river carries enough gravel to change the shape of its bed.",
    "Two of the three pumps were replaced last year, and the third one still leaks.",
    "The choir rehearses in the old fire station because its echo is kind to tenors.",
    "Bread needs time more than it needs strength, said the baker, and went to sleep.",
    "The telescope can see farther in winter, when the air is dry and still.",
    "Each of the forty houses has a number, but the letters still go to the wrong one.",
    "The clockmaker counts in seconds, his daughter in apprentices.",
    "Salt was once carried over this pass by mules, ten days from the coast.",
    "The library lends seeds as well as books, and asks for new seeds in return.",
    "A storm in October took the roof of the boat shed and left the boats alone.",
    "The new tram line crosses the market square, so the market now opens earlier.",
    "Bees find the lime trees in June within a day of the first flower.",
    "The museum's oldest map shows a lake where the airport is today.",
    "Nobody knows who painted the ceiling, though three families claim it.",
    "The school garden feeds the kitchen on Fridays and the snails on all other days.",
    "Copper turns green by the sea in five years and inland in twenty.",
    "The night train stops for eleven minutes so that the engine can be changed.",
    "When the mill closed, its wheel was bought by a hotel and its name by a brewery.",
    "The lighthouse is run by a computer now, and visited by more people than before.",
)


@dataclass(frozen=True)
class Workload:
    """One kind of request. `context` names it in tables; prompts are texts."""

    context: str
    prompts: tuple[str, ...]
    output_tokens: int

    def rows(self, count: int) -> bytes:
        """At least `count` rows for the load generator's `custom` data set (JSON lines)."""
        texts = [self.prompts[i % len(self.prompts)] for i in range(max(count, 1))]
        turns = ([{"content": text}, {"content": "-"}] for text in texts)
        return "".join(json.dumps({"conversations": turn}) + "\n" for turn in turns).encode()


def shareable(tokens: int, count: int, output_tokens: int, *, seed: int = 0) -> Workload:
    """`count` different prompts of about so many tokens."""
    rng = random.Random(f"{seed}:{tokens}")
    prompts = tuple(_prompt(rng, number, tokens) for number in range(count))
    return Workload(f"{tokens} tokens", prompts, output_tokens)


def _prompt(rng: random.Random, number: int, tokens: int) -> str:
    task = rng.choice(_TASKS)
    words = [f"Notes, number {rng.randrange(10**6)}-{number}."]  # no two begin alike: nothing is cached
    left = int(tokens * WORDS_PER_TOKEN) - len(task.split()) - 3
    while left > 0:
        sentence = rng.choice(_SENTENCES).split()[:left]
        words += sentence
        left -= len(sentence)
    return f"{' '.join(words)}\n\n{task}"


def own(path: Path, output_tokens: int) -> Workload:
    """Prompts of a file: JSON lines with a text under prompt, text or conversations, or bare lines of text.

    Raises:
        UsageError: there is no prompt in it.
    """
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}", code="dataset") from exc
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{path} has more than {MOST_BYTES >> 20} MB", code="dataset", hint="take a part of it"
        )
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    prompts = tuple(text for text in map(_text, lines) if text)
    if not prompts:
        raise UsageError(
            f"{path} holds no prompt",
            code="dataset",
            hint='write one a line: {"prompt": "..."}, or ShareGPT conversations as JSON lines, or text',
        )
    return Workload(path.stem, prompts, output_tokens)


def _text(line: str) -> str | None:
    try:
        row: Any = json.loads(line)
    except ValueError:
        return line if line[:1] not in "[{" else None
    if isinstance(row, str):
        return row
    if not isinstance(row, dict):
        return None
    turns = row.get("conversations") or row.get("conversation") or row.get("messages")
    if isinstance(turns, list) and turns and isinstance(turns[0], dict):
        row = turns[0]
    found = next(
        (row[k] for k in ("prompt", "text", "content", "value") if isinstance(row.get(k), str)), None
    )
    return found or None


def check_distinct(workloads: Sequence[Workload]) -> None:
    """Refuse two workloads of one name.

    Raises:
        UsageError: their results could not be told apart.
    """
    names = [w.context for w in workloads]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise UsageError(f"two workloads are called {twice[0]!r}", code="dataset", hint="rename one file")
