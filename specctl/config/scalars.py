"""One written value as what its place in the inventory asks for; what is doubtful is refused, not guessed."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence

from specctl.config import kinds
from specctl.config.problems import Where, nearest, shown
from specctl.config.ranges import RangeError, expand, has_range

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class MisreadError(ValueError):
    """A value that does not fit its place; the text says why, `hint` what to write."""

    def __init__(self, message: str, hint: str, *, code: str = "value", where: Where | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code
        self.where = where  # None: where the value begins


def parse(kind: kinds.Kind, text: str, *, plain: bool) -> object:
    """The value of a scalar: str, bool, int or float by its kind.

    Raises:
        MisreadError: it does not fit.
    """
    if isinstance(kind, kinds.Text):
        return _text(kind, text)
    if isinstance(kind, kinds.Flag):
        return _flag(kind, text, plain)
    if isinstance(kind, kinds.Whole):
        return _whole(kind, text)
    if isinstance(kind, kinds.Seconds):
        return _seconds(kind, text)
    if isinstance(kind, kinds.Choice):
        return _choice(kind, text)
    raise TypeError(f"{kind} is not a kind of scalar")


def wanted(kind: kinds.Kind) -> str:
    """What a place asks for, in words."""
    if isinstance(kind, kinds.Text):
        return kind.what
    if isinstance(kind, kinds.Flag):
        return _one_of(("true", "false", *kind.words), "or")
    if isinstance(kind, kinds.Whole):
        return f"a whole number ({kind.unit})" if kind.unit else "a whole number"
    if isinstance(kind, kinds.Seconds):
        return "a number of seconds"
    if isinstance(kind, kinds.Choice):
        return f"one of {', '.join(kind.words)}"
    return "a value"


def _one_of(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _text(kind: kinds.Text, text: str) -> str:
    display = "this value" if kind.hidden else shown(text)
    if not text and not kind.empty:
        raise MisreadError(f"{kind.what} is empty", kind.hint)
    if len(text) > kind.longest:
        raise MisreadError(f"{kind.what} is longer than {kind.longest:,} characters", "make it shorter")
    if any(not c.isprintable() and c != "\t" for c in text):
        raise MisreadError(
            f"{display} holds a line break or a control character", "write one line of plain text"
        )
    names: Sequence[str] = (text,)
    if kind.ranges and has_range(text):
        try:
            names = expand(text)
        except RangeError as exc:
            raise MisreadError(str(exc), exc.hint) from exc
    for name in (names[0], names[-1]):
        if not re.fullmatch(kind.pattern, name.replace("{name}", "x")):
            raise MisreadError(f"{display} is not {kind.what}", kind.hint)
    return text


def _flag(kind: kinds.Flag, text: str, plain: bool) -> bool | str:
    if text in kind.words:
        return text
    word = text.lower()
    if word not in (*_TRUE, *_FALSE):
        choices = _one_of(("true", "false", *kind.words), "nor")
        raise MisreadError(f"{shown(text)} is neither {choices}", f"write {wanted(kind)}")
    if not plain:
        raise MisreadError(
            f'"{word}" in quotes is text', f"write {'true' if word in _TRUE else 'false'} without quotes"
        )
    return word in _TRUE


def _whole(kind: kinds.Whole, text: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        raise MisreadError(f"{shown(text)} is not a plain whole number", _whole_hint(text, kind))
    value = int(text)
    if not kind.low <= value <= kind.high:
        text = f"{value} {kind.unit}".rstrip() if kind.unit != "port" else f"port {value}"
        raise MisreadError(f"{text} is out of range", f"write a number from {kind.low} to {kind.high}")
    return value


def _whole_hint(text: str, kind: kinds.Whole) -> str:
    """What was most likely meant by a number that YAML versions read differently."""
    if re.fullmatch(r"0[0-9]{1,17}", text):
        return f"YAML reads a leading zero as octal; write {int(text)}"
    if re.fullmatch(r"0o[0-7]{1,12}|0x[0-9a-fA-F]{1,12}|0b[01]{1,40}", text):
        return f"write {int(text, 0)}"
    if re.fullmatch(r"[0-9][0-9_,]{1,17}", text):
        return f"write {int(re.sub('[_,]', '', text))}"
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?([eE][+]?[0-9]{1,2})?", text):
        value = float(text)
        if value.is_integer() and value < 1e15:
            return f"write {int(value)}"
    if re.fullmatch(r"[0-9]+(:[0-9]+)+", text):
        return "YAML 1.1 reads this in base 60; write one decimal number"
    return f"write a whole number from {kind.low} to {kind.high}"


def _seconds(kind: kinds.Seconds, text: str) -> float:
    match = re.fullmatch(r"((?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,9})?) ?([smh]?)", text)
    if match is None:
        raise MisreadError(f"{shown(text)} is not a number of seconds", "write e.g. 90, 2.5, 15m or 1h")
    value = float(match.group(1)) * _UNITS[match.group(2)]
    if not math.isfinite(value) or not kind.low <= value <= kind.high:
        raise MisreadError(f"{shown(text)} is out of range", f"seconds: {kind.low:g} to {kind.high:g}")
    return value


def _choice(kind: kinds.Choice, text: str) -> str:
    if text in kind.words:
        return text
    near = nearest(text, kind.words)
    raise MisreadError(
        f"{shown(text)} is not one of {', '.join(kind.words)}",
        f"did you mean {near}?" if near else f"write {kind.words[0]}",
    )


def gpu_numbers(text: str) -> tuple[int, ...]:
    """`3`, `0-3` or `0,2`.

    Raises:
        MisreadError: anything else.
    """
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(0|[1-9][0-9]{0,2})(?:-(0|[1-9][0-9]{0,2}))?\s*", part)
        if match is None:
            raise MisreadError(
                f"{shown(text)} is not a GPU number", "write the numbers that nvidia-smi shows: [0, 1] or 0-3"
            )
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if low > high:
            raise MisreadError(f"{shown(text)} runs backwards", f"write {high}-{low}")
        numbers.extend(range(low, high + 1))
    return tuple(numbers)


def split(text: str) -> tuple[str, ...]:
    """Arguments written as one text, split as a shell splits words; nothing is expanded.

    Raises:
        MisreadError: a quote is not closed, or a character may not be in an argument.
    """
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise MisreadError(
            "a quote in these arguments is not closed", "close it, or write a list of arguments"
        ) from exc
    return tuple(argument(word, from_list=False) for word in words)


def argument(text: str, *, from_list: bool = True) -> str:
    """One argument. Its value is never quoted in a message: it may be a secret.

    Raises:
        MisreadError: a control character, or a flag and its value in one item of a list.
    """
    if any(not c.isprintable() and c != "\t" for c in text):
        raise MisreadError(
            "an argument holds a line break or a control character", "write one line of plain text"
        )
    flag = re.match(r"(--?[A-Za-z][A-Za-z0-9-]*)\s+\S", text)
    if from_list and flag is not None:
        name = shown(flag.group(1))[1:-1]
        hint = f"write two items ({name} and the value) or {name}=value"
        if name.lower().endswith("key"):
            hint = f"keep a key out of the arguments: secrets: {{{name}: {{env: NAME}}}}"
        raise MisreadError(f"{name} and its value are one item", hint)
    return text


def joined(words: Sequence[str]) -> str:
    """A command given as a list, as one line that splits into the same list."""
    return shlex.join(words)
