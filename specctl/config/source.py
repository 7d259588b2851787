"""YAML as it is written: every node with its line and column, nothing guessed, nothing lost, all bounded.

PyYAML's events are read rather than its objects: objects would already have turned `no` into False, `0755`
into 493 and two equal keys into one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import yaml

from specctl.config.decode import decode
from specctl.config.problems import Problems, Where, did_you_mean, shown

MAX_NODES = 50_000  # with every alias written out
MAX_DEPTH = 24

_STR_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class Scalar:
    """`plain`: written without quotes, so that YAML itself might have read something else than text."""

    text: str
    plain: bool
    where: Where


@dataclass(frozen=True)
class Items:
    items: tuple[Node, ...]
    where: Where


@dataclass(frozen=True)
class Entry:
    key: Where
    value: Node


@dataclass(frozen=True)
class Mapping:
    entries: dict[str, Entry]
    where: Where


Node = Scalar | Items | Mapping


class _RefusedError(Exception):
    """The rest of the file cannot be read; the reason is among the problems."""


def read_source(data: bytes, file: str, problems: Problems) -> Mapping | None:
    """The one document of a file, or None when it cannot be read; what is wrong goes to `problems`."""
    text = decode(data, file, problems)
    if text is None:
        return None
    try:
        root = _Builder(text, file, problems).document()
    except _RefusedError:
        return None
    if root is None or (isinstance(root, Scalar) and root.plain and root.text in ("", "~", "null")):
        problems.add(
            "empty", Where(file, 1, 1), "the inventory is empty", "start from `specctl hosts --example`"
        )
        return None
    if not isinstance(root, Mapping):
        problems.add("type", root.where, "the inventory is not a map", "begin with `hosts:`")
        return None
    return root


class _Builder:
    """From events to nodes; keeps the anchors and counts what aliases would expand to."""

    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self._text = text
        self._file = file
        self._problems = problems
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open: set[str] = set()  # anchors whose node is not finished: an alias to one is a loop
        self._events: Iterator[yaml.Event] = iter(())

    def document(self) -> Node | None:
        self._events = yaml.parse(self._text, Loader=yaml.SafeLoader)
        root: Node | None = None
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._refuse(
                        "documents", event, "a second document begins here", "one file, one document"
                    )
                root, _ = self._node(self._next(), 0)
        return root

    def _next(self) -> yaml.Event:
        try:
            return next(self._events)
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            if mark and exc.context_mark and mark.index >= len(self._text):
                mark = exc.context_mark  # the end of the file says nothing; where it began, something
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            what = ", ".join(part for part in (exc.context, exc.problem) if part)
            self._problems.add(
                "syntax", Where(self._file, line, column), f"not valid YAML: {what}", self._syntax_hint(line)
            )
        except (yaml.YAMLError, ValueError, OverflowError, LookupError, TypeError, AttributeError) as exc:
            # PyYAML lets errors of its own machinery through, e.g. for the escape "\UFFFFFFFF".
            where = Where(self._file, 1, 1)
            self._problems.add("syntax", where, f"not valid YAML: {type(exc).__name__}", "quote unusual text")
        raise _RefusedError

    def _syntax_hint(self, line: int) -> str:
        lines = self._text.splitlines()
        here = lines[line - 1] if line <= len(lines) else ""
        before = lines[line - 2] if 2 <= line <= len(lines) + 1 else ""
        for written in (here, before):
            if re.match(r" *\t", written):
                return "indent with spaces, not with tabs"
            if re.search(r"\[[^\]]*\[\w+:\w+", written) or re.match(r"\s*(- )?\[\w+:\w+", written):
                return 'quote a name with a range: "gpu-[01:04]"'
            if re.search(r"[:-]\s+([%@`]|\*\W|\{[^{}:,]*\}\S)", written):
                return "quote a value that begins with one of * % @ ` {"
            if (written.count('"') - written.count('\\"')) % 2:
                return "close the quote"
        return "look at the indentation, the colons and the quotes of this line and the one above"

    def _refuse(self, code: str, event: yaml.Event, message: str, hint: str) -> NoReturn:
        self._problems.add(code, self._where(event), message, hint)
        raise _RefusedError

    def _where(self, event: yaml.Event) -> Where:
        mark = event.start_mark
        return Where(self._file, mark.line + 1, mark.column + 1) if mark else Where(self._file, 1, 1)

    def _node(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        """One node and how many nodes it is with its aliases written out."""
        if depth > MAX_DEPTH:
            self._refuse(
                "too-deep", event, f"more than {MAX_DEPTH} levels", "an inventory needs fewer than ten"
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self._open.add(anchor)
        self._check_tag(event)
        node, size = self._content(event, depth)
        if size > MAX_NODES:
            self._refuse(
                "too-large", event, f"more than {MAX_NODES:,} values", "use fewer anchors and aliases"
            )
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = (node, size)
        return node, size

    def _alias(self, event: yaml.AliasEvent) -> tuple[Node, int]:
        name = str(event.anchor)
        if name in self._open:
            self._refuse(
                "alias-loop", event, f"*{name} is inside &{name}", "take the alias out of its own block"
            )
        if name not in self._anchors:
            hint = did_you_mean(name, self._anchors)
            self._refuse("unknown-alias", event, f"there is no anchor &{name} above", hint)
        return self._anchors[name]

    def _check_tag(self, event: yaml.Event) -> None:
        tag: str | None = getattr(event, "tag", None)
        if tag not in (None, "!", _STR_TAG) or (tag == _STR_TAG and not isinstance(event, yaml.ScalarEvent)):
            self._problems.add(
                "tag", self._where(event), f"the tag {shown(str(tag))} means nothing here", "remove it"
            )

    def _content(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        where = self._where(event)
        if isinstance(event, yaml.ScalarEvent):
            plain = not event.style and event.tag is None
            return Scalar(event.value, plain, where), 1
        size = 1
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                node, count = self._node(inner, depth + 1)
                items.append(node)
                size += count
            return Items(tuple(items), where), size
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        while not isinstance(inner := self._next(), yaml.MappingEndEvent):
            key, _ = self._node(inner, depth + 1)
            value, count = self._node(self._next(), depth + 1)
            size += 1 + count
            if isinstance(key, Scalar) and key.plain and key.text == "<<":
                merged.extend(self._merge_key(key, value, repeated=bool(merged)))
            else:
                self._entry(entries, key, value)
        for source in merged:
            if isinstance(source, Mapping):
                for name, entry in source.entries.items():
                    entries.setdefault(name, entry)
        return Mapping(entries, where), size

    def _merge_key(self, key: Scalar, value: Node, *, repeated: bool) -> tuple[Node, ...]:
        if repeated:
            self._problems.add("duplicate-key", key.where, "'<<' is given twice", "write <<: [*one, *two]")
        sources = value.items if isinstance(value, Items) else (value,)
        if not all(isinstance(s, Mapping) for s in sources):
            self._problems.add(
                "type", key.where, "'<<' takes a map or a list of maps", "write <<: *name-of-a-map"
            )
        return sources

    def _entry(self, entries: dict[str, Entry], key: Node, value: Node) -> None:
        if not isinstance(key, Scalar):
            self._problems.add(
                "key", key.where, "a key must be text", 'quote a name that begins with [ or {: "[1:3]-gpu"'
            )
        elif key.plain and key.text == "":
            self._problems.add("key", key.where, "a key is empty", "write the key before the colon")
        elif key.text in entries:
            first = entries[key.text].key
            self._problems.add(
                "duplicate-key",
                key.where,
                f"{shown(key.text)} is given twice: line {first.line} and line {key.where.line}",
                "keep one of them; YAML itself would silently take the last",
            )
        else:
            entries[key.text] = Entry(key.where, value)
