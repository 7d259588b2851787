"""From YAML nodes to values by the schema; each keeps where it was written, every problem is collected."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from specctl.config import kinds, scalars
from specctl.config.problems import Problems, Where, did_you_mean, nearest, shown
from specctl.config.scalars import MisreadError
from specctl.config.source import Items, Node, Scalar
from specctl.config.source import Mapping as MappingNode


@dataclass(frozen=True)
class Located:
    """A value and where it was written. Tables and named maps are dicts, lists are tuples, of `Located`."""

    value: object
    where: Where

    def get(self, key: str) -> Located | None:
        """The value of a key of a map; None when it is not there."""
        return self.value.get(key) if isinstance(self.value, dict) else None


def place(settings: Located, *keys: str) -> Where:
    """Where a setting was written; where the nearest thing around it was, when it was not written."""
    for key in keys:
        inner = settings.get(key)
        if inner is None:
            break
        settings = inner
    return settings.where


class _Mark(Enum):
    DROP = "drop"
    INVALID = "invalid"


DROP: Final = _Mark.DROP  # an explicit null: what was inherited here is dropped
INVALID: Final = _Mark.INVALID  # something is here, and `problems` says what is wrong with it


def read(kind: kinds.Kind, node: Node, path: str, problems: Problems) -> Located:
    """The value of a node; INVALID stands for it, or inside it, wherever `problems` got an entry."""
    return _Reader(problems).value(kind, node, path)


class _Reader:
    """Walks containers; what is wrong inside one is reported and left out, the rest is read on."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def value(self, kind: kinds.Kind, node: Node, path: str, *, inherited: bool = False) -> Located:
        """`inherited`: an explicit null drops what is inherited at this place."""
        where = node.where.below(path)
        try:
            return self._value(kind, node, where, inherited)
        except MisreadError as exc:
            self._problems.add(exc.code, exc.where or where, str(exc), exc.hint)
            return Located(INVALID, where)

    def _value(self, kind: kinds.Kind, node: Node, where: Where, inherited: bool) -> Located:
        if _is_null(node):
            if inherited and isinstance(node, Scalar) and node.text:
                return Located(DROP, where)
            hint = "write a value" + (", or null to drop what is inherited" if inherited else "")
            if isinstance(kind, kinds.Text) and kind.empty:
                hint += ', or "" for empty text'
            raise MisreadError("there is no value here", hint, code="empty")
        if isinstance(kind, kinds.Table):
            return self._table(kind, node, where)
        if isinstance(kind, kinds.Named):
            return self._named(kind, node, where)
        if isinstance(kind, (kinds.OneOrMany, kinds.Several)):
            return self._list(kind, node, where)
        if isinstance(kind, kinds.Hops):
            if isinstance(node, Scalar) and node.text == "none":
                return Located((), where)
            return self._list(kinds.OneOrMany(kind.hop), node, where)
        if isinstance(kind, kinds.Secret):
            return _secret(kind, node, where)
        if isinstance(kind, kinds.Gpus):
            return _gpus(node, where)
        if isinstance(kind, kinds.Arguments):
            return _arguments(node, where)
        if not isinstance(node, Scalar):
            hint = kind.hint if isinstance(kind, kinds.Text) else f"write {scalars.wanted(kind)}"
            raise _misshapen(node, scalars.wanted(kind), hint)
        return Located(scalars.parse(kind, node.text, plain=node.plain), where)

    def _table(self, kind: kinds.Table, node: Node, where: Where) -> Located:
        if not isinstance(node, MappingNode):
            raise _misshapen(node, "a map", f"write keys such as {', '.join(list(kind.fields)[:4])}")
        top = where.path == ""
        found: dict[str, Located] = {}
        for key, entry in node.entries.items():
            path = _join(where.path, key)
            if key not in kind.fields:
                if not (top and key.startswith("x-")):
                    meant, hint = _meant(key, kind, top=top)
                    at = entry.key.below(path)
                    self._problems.add("unknown-key", at, f"unknown key {shown(key)}", hint)
                    if meant is not None:
                        found.setdefault(meant, Located(INVALID, at))
                continue
            found[key] = self.value(kind.fields[key].kind, entry.value, path, inherited=not top)
        for key, field in kind.fields.items():
            if field.required and (key not in found or found[key].value is DROP):
                self._problems.add("missing", where, f"{key} is missing", f"add `{key}:` ({field.doc})")
                found[key] = Located(INVALID, where)
        return Located(found, where)

    def _named(self, kind: kinds.Named, node: Node, where: Where) -> Located:
        if not isinstance(node, MappingNode):
            lines = "`name:`, each with a colon" if kind.empty_is_map else "`name: value`"
            raise _misshapen(node, "a map", f"write lines such as {lines}")
        found: dict[str, Located] = {}
        for key, entry in node.entries.items():
            at = entry.key.below(_join(where.path, key))
            try:
                scalars.parse(kind.key, key, plain=True)
            except MisreadError as exc:
                self._problems.add("name", at, str(exc), exc.hint)
                continue
            inner = entry.value
            if kind.empty_is_map and _is_null(inner):
                inner = MappingNode({}, entry.key)
            value = self.value(kind.value, inner, at.path, inherited=not kind.empty_is_map)
            found[key] = Located(value.value, at)
        return Located(found, where)

    def _list(self, kind: kinds.OneOrMany | kinds.Several, node: Node, where: Where) -> Located:
        if isinstance(kind, kinds.Several) and not isinstance(node, Items):
            raise _misshapen(node, "a list", "begin each item with `- `")
        nodes = _numbered(node, where)
        if len(nodes) < kind.fewest:
            raise MisreadError("the list is empty", "write at least one item", code="empty")
        return Located(tuple(self.value(kind.item, item, at.path) for item, at in nodes), where)


def _secret(kind: kinds.Secret, node: Node, where: Where) -> Located:
    # The text is never quoted here: what stands in the wrong place is most likely the secret itself.
    hint = "write {env: NAME}, {file: PATH} or {command: LINE}; the secret itself stays out of the file"
    if not isinstance(node, MappingNode):
        raise MisreadError("a value where a reference to a secret belongs", hint, code="secret")
    if len(node.entries) != 1 or not set(node.entries) <= set(kind.fields):
        raise MisreadError("a secret has exactly one of env, file and command", hint, code="secret")
    key, entry = next(iter(node.entries.items()))
    at = entry.value.where.below(_join(where.path, key))
    words = entry.value.items if isinstance(entry.value, Items) and key == "command" else ()
    if words and all(isinstance(word, Scalar) for word in words):
        return Located(
            (key, scalars.joined([word.text for word in words if isinstance(word, Scalar)])), where
        )
    if not isinstance(entry.value, Scalar) or _is_null(entry.value):
        raise MisreadError(f"{key} of a secret takes one text", hint, code="secret", where=at)
    try:
        return Located((key, scalars.parse(kind.fields[key].kind, entry.value.text, plain=True)), where)
    except MisreadError:
        wanted = scalars.wanted(kind.fields[key].kind)
        raise MisreadError(f"this is not {wanted}", hint, code="secret", where=at) from None


def _gpus(node: Node, where: Where) -> Located:
    numbers: list[int] = []
    for item, at in _numbered(node, where):
        if not isinstance(item, Scalar):
            raise _misshapen(item, "a GPU number", "write e.g. [0, 1]", at)
        try:
            numbers.extend(scalars.gpu_numbers(item.text))
        except MisreadError as exc:
            raise MisreadError(str(exc), exc.hint, where=at) from None
    twice = sorted({n for n in numbers if numbers.count(n) > 1}) if len(numbers) < 4096 else numbers[:1]
    if twice:
        raise MisreadError(f"GPU {twice[0]} is listed twice", "list each GPU once", code="gpu-twice")
    return Located(tuple(numbers), where)


def _arguments(node: Node, where: Where) -> Located:
    """A tuple of Located text, one for each argument."""
    if isinstance(node, Scalar):
        return Located(tuple(Located(word, where) for word in scalars.split(node.text)), where)
    if not isinstance(node, Items):
        raise _misshapen(node, "a list of arguments", "write e.g. [--tp-size, 2]")
    words: list[Located] = []
    for item, at in _numbered(node, where):
        if not isinstance(item, Scalar):
            hint = "quote text that begins with [ or {, such as JSON: '{\"a\": 1}'"
            raise _misshapen(item, "one argument", hint, at)
        if _is_null(item):
            raise MisreadError(
                "an argument is empty", 'write "" for an empty argument', code="empty", where=at
            )
        try:
            words.append(Located(scalars.argument(item.text), at))
        except MisreadError as exc:
            raise MisreadError(str(exc), exc.hint, where=at) from None
    return Located(tuple(words), where)


def _numbered(node: Node, where: Where) -> list[tuple[Node, Where]]:
    """The items of a list, or the node itself, each with its place."""
    if not isinstance(node, Items):
        return [(node, where)]
    return [(item, item.where.below(f"{where.path}[{i}]")) for i, item in enumerate(node.items)]


def _misshapen(node: Node, belongs: str, hint: str, where: Where | None = None) -> MisreadError:
    shape = "text" if isinstance(node, Scalar) else "a list" if isinstance(node, Items) else "a map"
    return MisreadError(f"{shape} where {belongs} belongs", hint, code="type", where=where)


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text in ("", "~", "null", "Null", "NULL")


def _join(path: str, key: str) -> str:
    name = key if len(key) <= 60 and key.isprintable() else ascii(key[:57])
    return f"{path}.{name}" if path else name


def _meant(key: str, kind: kinds.Table, *, top: bool) -> tuple[str | None, str]:
    """The key of this table that an unknown key most likely stands for, if any, and a hint."""
    folded = key.lower().replace("-", "_")
    if folded in kind.renamed:
        return kind.renamed[folded], f"write {kind.renamed[folded]}"
    if folded in kind.elsewhere:
        return None, kind.elsewhere[folded]
    if key.startswith("x-"):
        return None, "blocks of your own stand at the top of the file"
    near = nearest(key, kind.fields)
    if near is not None:
        return near, f"did you mean {near}? ({kind.fields[near].doc})"
    known = did_you_mean(key, kind.fields)
    return None, f"{known}; blocks of your own begin with x-" if top else known
