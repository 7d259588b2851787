"""The function that a line belongs to, and when its fingerprint changes."""

from __future__ import annotations

import pytest

from specctl.overlay.draft import pin_edit
from specctl.overlay.functions import SourceMap
from specctl.overlay.patch import changes_between

SOURCE = b"""import os

VALUE = 1


class A:
    size = 2

    @property
    def x(self):
        return 1

    @x.setter
    def x(self, value):
        pass

    def outer(self):
        def inner():
            return 2
        return inner

    class B:
        async def run(self):
            return 3


if VALUE:
    def guarded():
        return 4


def last():
    return 5
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os", "<module>"),
        ("    size = 2", "A"),
        ("    @property", "A.x"),
        ("        return 1", "A.x"),
        ("    @x.setter", "A.x#2"),
        ("        pass", "A.x#2"),
        ("            return 2", "A.outer.inner"),
        ("        return inner", "A.outer"),
        ("    class B:", "A.B"),
        ("            return 3", "A.B.run"),
        ("        return 4", "guarded"),
        ("    return 5", "last"),
    ],
)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_line_belongs_to_its_innermost_function(text, name, ending):
    source = SourceMap(SOURCE.replace(b"\n", ending))
    line = next(i for i, row in enumerate(source.lines) if row.rstrip() == text.encode())
    assert source.innermost(line) == name


def test_a_carriage_return_inside_a_string_does_not_shift_lines():
    source = SourceMap(b'X = "a\rb"\n\n\ndef f():\n    return 1\n')
    assert source.innermost(4) == "f"


@pytest.mark.parametrize("data", [b"def f(:\n", b"\x00\x00", b"print 'two'\n", b"\xff\xfe", b""])
def test_what_is_no_python_has_one_function(data):
    source = SourceMap(data)
    assert source.spans == ()
    assert source.innermost(0) == "<module>"
    assert len(source.fingerprint("<module>")) == 64


def test_bytes_that_are_no_utf8_do_not_hide_the_functions():
    assert SourceMap(b"# caf\xe9\ndef f():\n    return 1\n").innermost(2) == "f"


@pytest.mark.parametrize(
    ("name", "old", "new", "changed"),
    [
        ("last", b"return 5", b"return 6", True),
        ("last", b"return 4", b"return 6", False),
        ("A.x", b"    @property", b"    @cached_property", True),
        ("A", b"size = 2", b"size = 3", True),
        ("A", b"return inner", b"return None", False),
        ("A.outer", b"            return 2", b"            return 9", True),
        ("<module>", b"VALUE = 1", b"VALUE = 2", True),
        ("<module>", b"return 5", b"return 6", False),
    ],
)
def test_a_fingerprint_changes_with_its_own_source_only(name, old, new, changed):
    assert SOURCE.count(old) == 1
    before, after = SourceMap(SOURCE), SourceMap(SOURCE.replace(old, new))
    assert (before.fingerprint(name) != after.fingerprint(name)) is changed


def test_a_fingerprint_does_not_depend_on_the_place():
    assert SourceMap(b"# a line more\n" + SOURCE).fingerprint("last") == SourceMap(SOURCE).fingerprint("last")


OUTER = b"    def outer(self):\n        def inner():\n"
INNER = b"            return 2\n        return inner\n"


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (b"import os\n", b"import os\nimport sys\n", ["<module>"]),
        (b"        return 1\n", b"        log()\n        return 1\n", ["A.x"]),
        (b"    size = 2\n", b"    size = 2\n    more = 3\n", ["A"]),
        (b"        return inner\n", b"        return inner\n\n    def added(self):\n        pass\n", ["A"]),
        (b"    return 5\n", b"    return 5\n\n\ndef added():\n    return 6\n", ["<module>"]),
        (b"    return 5\n", b"    x = 5\n    return x\n", ["last"]),
        (INNER, b"            return 7\n        return None\n", ["A.outer.inner", "A.outer"]),
        (OUTER + INNER, b"", ["A.outer", "A.outer.inner"]),
    ],
)  # fmt: skip
def test_an_edit_is_pinned_to_the_functions_that_it_touches(old, new, names):
    assert SOURCE.count(old) == 1
    edit, diff = pin_edit("sglang/a.py", SOURCE, changes_between(SOURCE, SOURCE.replace(old, new)), "p")
    assert sorted(f.name for f in edit.functions) == sorted(names)
    assert ("@@ " + ", ".join(f.name for f in edit.functions)).encode() in diff
