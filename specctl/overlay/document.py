"""YAML with its line numbers: typed getters whose errors say the file, the line and the key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from specctl.overlay.errors import ManifestError


class Document:
    """A mapping node of a YAML file. Scalars are read as the text that was written: `0.5` stays "0.5"."""

    def __init__(self, file: Path, node: yaml.MappingNode, path: str = "") -> None:
        self.file, self.node, self.path = file, node, path
        self._entries: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error("a key must be one word", key)
            if key.value in self._entries:
                raise self.error(f"the key {key.value!r} stands here twice", key, key.value)
            self._entries[key.value] = value

    @classmethod
    def read(cls, file: Path) -> Document:
        """Parse a file.

        Raises:
            ManifestError: it cannot be read, is no YAML, or is no mapping.
        """
        try:
            node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            mark = getattr(exc, "problem_mark", None)
            where = f"{file}:{mark.line + 1}" if mark else str(file)
            cause = " ".join(str(getattr(exc, "problem", None) or exc).split())
            raise ManifestError(f"{file.name} cannot be read: {cause}", context={"file": where}) from exc
        if not isinstance(node, yaml.MappingNode):
            raise ManifestError(f"{file.name} must be a mapping of keys", context={"file": str(file)})
        return cls(file, node)

    def error(
        self, message: str, node: yaml.Node | None = None, key: str = "", hint: str | None = None
    ) -> ManifestError:
        mark = (node or self.node).start_mark
        full = ".".join(part for part in (self.path, key) if part)
        context = {"file": f"{self.file}:{mark.line + 1}"}
        if full:
            context["key"] = full
        return ManifestError(message, context=context, hint=hint)

    def only(self, allowed: Iterable[str]) -> None:
        """Refuse keys outside `allowed`, with the nearest one as a suggestion."""
        allowed = list(allowed)
        for key, node in self._entries.items():
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(allowed)}"
                raise self.error(f"unknown key {key!r}", node, key, hint)

    def __contains__(self, key: str) -> bool:
        node = self._entries.get(key)
        return node is not None and node.tag != "tag:yaml.org,2002:null"

    def keys(self) -> list[str]:
        return list(self._entries)

    def text(self, key: str) -> str:
        """A non-empty text. Raises ManifestError when it is missing or no scalar."""
        if key not in self:
            raise self.error(f"{key!r} is missing", self._entries.get(key), key)
        node = self._entries[key]
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self.error(f"{key!r} must be a text", node, key)
        return str(node.value).strip()

    def integer(self, key: str) -> int:
        value = self.text(key)
        try:
            return int(value)
        except ValueError:
            raise self.error(
                f"{key!r} must be a whole number, not {value!r}", self._entries[key], key
            ) from None

    def choice(self, key: str, values: Iterable[str]) -> str:
        value, values = self.text(key), list(values)
        if value not in values:
            near = difflib.get_close_matches(value, values, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(values)}"
            raise self.error(f"{key!r} cannot be {value!r}", self._entries[key], key, hint)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of scalars; empty when the key is absent."""
        nodes = self._sequence(key)
        if not all(isinstance(node, yaml.ScalarNode) for node in nodes):
            raise self.error(f"{key!r} must be a list of texts", self._entries[key], key)
        return tuple(str(node.value) for node in nodes)

    def integers(self, key: str) -> tuple[int, ...]:
        try:
            return tuple(int(text) for text in self.texts(key))
        except ValueError:
            raise self.error(f"{key!r} must be a list of whole numbers", self._entries[key], key) from None

    def child(self, key: str) -> Document:
        """The mapping under a key; an absent one reads as empty."""
        if key not in self:
            return Document(
                self.file,
                yaml.MappingNode("", [], self.node.start_mark, self.node.end_mark),
                self._below(key),
            )
        node = self._entries[key]
        if not isinstance(node, yaml.MappingNode):
            raise self.error(f"{key!r} must be a mapping", node, key)
        return Document(self.file, node, self._below(key))

    def children(self, key: str) -> Iterator[Document]:
        """The mappings in the list under a key."""
        for index, node in enumerate(self._sequence(key)):
            if not isinstance(node, yaml.MappingNode):
                raise self.error(f"each entry of {key!r} must be a mapping", node, f"{key}[{index}]")
            yield Document(self.file, node, self._below(f"{key}[{index}]"))

    def _below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _sequence(self, key: str) -> list[yaml.Node]:
        if key not in self:
            return []
        node = self._entries[key]
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(f"{key!r} must be a list", node, key)
        return list(node.value)
