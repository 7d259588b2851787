"""The bytes of a file as text: UTF-8 only, of bounded size, without control characters."""

from __future__ import annotations

from yaml.reader import Reader

from specctl.config.problems import Problems, Where

MAX_BYTES = 512 * 1024


def decode(data: bytes, file: str, problems: Problems) -> str | None:
    """The text, or None when it is none; why goes to `problems`."""
    top = Where(file, 1, 1)
    if len(data) > MAX_BYTES:
        size = f"{len(data):,} bytes" if len(data) < 10 * MAX_BYTES else "far more"
        problems.add(
            "too-large",
            top,
            f"an inventory file may have {MAX_BYTES:,} bytes; this one has {size}",
            "use ranges and groups, or split it into several files of one folder",
        )
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        problems.add("not-utf8", top, "the file is UTF-16", "save it as UTF-8")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        before = data[: exc.start]
        column = len(before) - before.rfind(b"\n")
        where = Where(file, before.count(b"\n") + 1, column)
        problems.add(
            "not-utf8", where, f"byte 0x{data[exc.start]:02x} is not UTF-8", "save the file as UTF-8"
        )
        return None
    bad = Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        line, column = _place(text, bad.start())
        problems.add(
            "control-character",
            Where(file, line, column),
            f"the character U+{ord(bad.group()):04X} may not be in a YAML file",
            "remove it",
        )
        return None
    return text


def _place(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
