"""Judging one file of one overlay."""

from __future__ import annotations

from collections.abc import Mapping

from specctl.overlay.compose import Composition, Recognised, public
from specctl.overlay.differs import what_differs
from specctl.overlay.finding import Finding
from specctl.overlay.functions import SourceMap
from specctl.overlay.landed import landed_by_lines, landed_by_manifest
from specctl.overlay.locate import judge_function, without
from specctl.overlay.model import FileEdit, Overlay, State, sha256
from specctl.overlay.tree import Tree


class FileJudge:
    """Judges the files of the overlays of one composition in one tree."""

    def __init__(self, tree: Tree, comp: Composition, against: Tree | None = None) -> None:
        self.tree, self.comp, self.against = tree, comp, against
        self.release = tree.version is not None and public(tree.version) == comp.base_version
        self.contents: Mapping[str, bytes | None] = {path: tree.read(path) for path in comp.edits}
        self.known: dict[str, Recognised | None] = {
            path: comp.recognise(path, data) for path, data in self.contents.items() if data is not None
        }

    def modules(self, overlay: Overlay) -> list[Finding]:
        """One finding for each module that the overlay adds."""
        return [self._module(overlay, path, data) for path, data in overlay.modules.items()]

    def edits(self, overlay: Overlay) -> list[Finding]:
        """Findings for each file that the overlay edits, one per function where functions differ."""
        out: list[Finding] = []
        for path, edit in overlay.bases[self.comp.base_version].edits.items():
            data, known = self.contents[path], self.known.get(path)
            if data is None:
                out.append(self._gone(overlay, path))
            elif known is None:
                out += self._unknown(overlay, path, edit, data)
            elif overlay.name in known.applied:
                out.append(self._finding(overlay, path, State.APPLIED, "the edit is in it"))
            else:
                text = f"the bytes of {self.comp.base_version}"
                if known.applied:
                    text += f" with {', '.join(sorted(known.applied))}"
                out.append(self._finding(overlay, path, State.CLEAN, text))
        return out

    def _finding(
        self,
        overlay: Overlay,
        path: str,
        state: State,
        message: str,
        *,
        function: str | None = None,
        detail: str = "",
        hint: str = "",
    ) -> Finding:
        return Finding(overlay.name, path, function, state, message, detail, hint, self.comp.base_version)

    def _module(self, overlay: Overlay, path: str, ours: bytes) -> Finding:
        data = self.tree.read(path)
        if data is None:
            return self._finding(overlay, path, State.CLEAN, "not there")
        if data == ours:
            return self._finding(overlay, path, State.APPLIED, "there")
        detail = "\n".join(text for _, text in what_differs(ours, data))
        recorded = (self.tree.recorded or {}).get(path)
        if not self.release and recorded == sha256(data):
            hint = "give the module another name, then pin"
            text = "this release has a file of its own where the module belongs"
            return self._finding(overlay, path, State.CONFLICT, text, detail=detail, hint=hint)
        hint = "an older or edited copy: remove it, or install again"
        text = "the module is there with other bytes"
        return self._finding(overlay, path, State.FOREIGN, text, detail=detail, hint=hint)

    def _gone(self, overlay: Overlay, path: str) -> Finding:
        if self.release:
            text = f"{self.comp.base_version} has this file, and the tree does not"
            return self._finding(overlay, path, State.FOREIGN, text, hint="install the release again")
        name = path.rpartition("/")[2]
        moved = [p for p in self.tree.sources() if p.rpartition("/")[2] == name]
        detail = f"perhaps it is now {' or '.join(moved)}" if 0 < len(moved) <= 3 else ""
        hint = f"edit a copy of this release by hand, then: {self._pin(overlay)} --edited-tree DIR"
        return self._finding(
            overlay, path, State.CONFLICT, "the tree has no such file", detail=detail, hint=hint
        )

    def _unknown(self, overlay: Overlay, path: str, edit: FileEdit, data: bytes) -> list[Finding]:
        """Bytes that are neither the base nor the base with overlays."""
        if self.release:
            return self._foreign(overlay, path, edit, data)
        source = SourceMap(data)
        recorded = (self.tree.recorded or {}).get(path)
        by_hand = recorded is not None and recorded != sha256(data)
        there = landed_by_lines(source, edit)
        ours = any(self.tree.read(p) == module for p, module in overlay.modules.items())
        if there and (by_hand or ours):
            text = "the edit stands in it, though nothing is pinned for this release"
            hint = f"pin this release: {self._port(overlay)}"
            return [self._finding(overlay, path, State.FOREIGN, text, hint=hint)]
        why = landed_by_manifest(overlay.upstream_of(path), self.tree.version, self.tree.read)
        if why or there:
            text = why or "the lines that it adds are already there"
            hint = "this release needs no edit of the file: leave it out when pinning"
            return [self._finding(overlay, path, State.LANDED, text, hint=hint)]
        return self._moved_on(overlay, path, edit, source)

    def _moved_on(self, overlay: Overlay, path: str, edit: FileEdit, source: SourceMap) -> list[Finding]:
        """A file of another release: would the edit still fit?"""
        rows = [judge_function(source, edit, pin) for pin in edit.functions]
        by_hand = f"edit a copy of this release by hand, then: {self._pin(overlay)} --edited-tree DIR"
        if all(row.fits for row in rows):
            again = f"a new pin will do: {self._port(overlay)}"
            return [
                self._finding(
                    overlay,
                    path,
                    State.DRIFTED,
                    r.message,
                    function=r.function,
                    detail=r.detail,
                    hint=again if all(row.movable for row in rows) else by_hand,
                )
                for r in rows
            ]
        return [
            self._finding(
                overlay, path, State.CONFLICT, r.message, function=r.function, detail=r.detail, hint=by_hand
            )
            for r in rows
            if not r.fits
        ]

    def _foreign(self, overlay: Overlay, path: str, edit: FileEdit, data: bytes) -> list[Finding]:
        """The tree says that it is the pinned release, and the bytes are nobody's."""
        message = f"neither the file of {self.comp.base_version} nor that file with overlays"
        recorded = (self.tree.recorded or {}).get(path)
        if recorded is not None:
            installed_so = recorded == sha256(data)
            message += "; it was installed like this" if installed_so else "; it was edited after the install"
        rest = without(data, [owned for _, owned in self.comp.edits[path]])
        if without(data, [edit]) != data:
            message += "; the overlay's edit stands in it"
        if sha256(data.replace(b"\r\n", b"\n")) == edit.base_sha256:
            rows: list[tuple[str | None, str]] = [(None, "only its line ends differ: CR LF instead of LF")]
        else:
            rows = self._against(path, edit, rest) or self._pinned_functions(edit, rest)
        hint = "install the release again, or make an overlay of the edit"
        if "+specctl" in (self.tree.version or ""):
            hint = "it was built from another state of the overlays: build and install again"
        return [
            self._finding(overlay, path, State.FOREIGN, message, function=function, detail=detail, hint=hint)
            for function, detail in rows
        ]

    def _against(self, path: str, edit: FileEdit, rest: bytes) -> list[tuple[str | None, str]]:
        """The foreign edit itself, when the base's own bytes are at hand."""
        base = self.against.read(path) if self.against else None
        return what_differs(base, rest) if base is not None and sha256(base) == edit.base_sha256 else []

    def _pinned_functions(self, edit: FileEdit, rest: bytes) -> list[tuple[str | None, str]]:
        """Without the base's bytes: which pinned functions are not as pinned, our own edits taken out."""
        source = SourceMap(rest)
        rows = [judge_function(source, edit, pin) for pin in edit.functions]
        differing = [row for row in rows if not row.same]
        if differing:
            away = "not as pinned, though not where the edit goes"
            return [(row.function, away if row.fits else f"{row.message}\n{row.detail}") for row in differing]
        return [
            (None, "the functions that the overlay edits are as pinned; the change is elsewhere in the file")
        ]

    @staticmethod
    def _pin(overlay: Overlay) -> str:
        return f"specctl overlay pin {overlay.name} --base-tree DIR"

    def _port(self, overlay: Overlay) -> str:
        return f"{self._pin(overlay)} --from {self.comp.base_version}"
