"""The kinds of value that an inventory knows: plain data, read by `specctl.config.reader`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Text:
    """Text, taken as written: `no`, `0755` and `1e3` stay what they are. `pattern` must match all of it."""

    what: str
    pattern: str = r".+"
    hint: str = "write text"
    longest: int = 4096
    empty: bool = False
    hidden: bool = False  # never quoted in a message
    ranges: bool = False  # may hold ranges; each name must match


@dataclass(frozen=True)
class Flag:
    """true or false, or one of some words that mean something between the two."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Whole:
    """A whole number in plain decimal digits."""

    low: int
    high: int
    unit: str = ""


@dataclass(frozen=True)
class Seconds:
    """Seconds, or a number with s, m or h behind it."""

    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class OneOrMany:
    """A list; a single value stands for a list of one."""

    item: Kind
    fewest: int = 0


@dataclass(frozen=True)
class Several:
    """A list."""

    item: Kind
    fewest: int = 0


@dataclass(frozen=True)
class Named:
    """A map whose keys the author chooses."""

    key: Text
    value: Kind
    empty_is_map: bool = False  # `name:` with nothing behind it stands for an empty map


@dataclass(frozen=True)
class Field:
    """One key of a table. `doc` is one line, shown beside errors. `required`: here, it is never inherited."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A map whose keys are known."""

    fields: Mapping[str, Field]
    renamed: Mapping[str, str] = field(default_factory=dict)  # wrong key that people write -> the right one
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # key of another place -> where it goes


@dataclass(frozen=True)
class Secret:
    """One of `env`, `file`, `command`: where a secret is, never the secret."""

    fields: Mapping[str, Field]


@dataclass(frozen=True)
class Arguments:
    """Arguments of a command: a list, or one text that is split as a shell would split it."""


@dataclass(frozen=True)
class Gpus:
    """GPU numbers: a list, one number, or text such as 0-3 or 0,2."""


@dataclass(frozen=True)
class Hops:
    """Jump hosts in order; `none` (or an empty list) means a direct connection."""

    hop: Kind


Kind = (
    Text
    | Flag
    | Whole
    | Seconds
    | Choice
    | OneOrMany
    | Several
    | Named
    | Table
    | Secret
    | Arguments
    | Gpus
    | Hops
)
