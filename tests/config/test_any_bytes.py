"""Whatever a file holds, the loader answers with an inventory or with SpecctlError, never with a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.cases import CASES, parse
from specctl.config.inventory import InventoryFile, parse_inventory
from specctl.config.problems import InventoryError
from specctl.config.schema import INVENTORY, keys
from specctl.errors import SpecctlError

EXAMPLE = (Path(__file__).parents[2] / "hosts" / "example.yaml").read_text(encoding="utf-8")
WORDS = sorted({path.rsplit(".", 1)[-1].removesuffix("[]") for path, _ in keys(INVENTORY)} - {"*"})
lenient = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


def answer(data: bytes) -> SpecctlError | None:
    """Load; what is wrong with the data, or None."""
    try:
        parse_inventory(Path("x.yaml"), [InventoryFile("x.yaml", data)], environ={"HOME": "/home/op"})
    except SpecctlError as error:
        return error
    return None


def survives(data: bytes) -> None:
    """An error must be one of ours, complete, and printable anywhere."""
    error = answer(data)
    if error is None:
        return
    assert error.message
    str(error.as_dict()).encode("utf-8")
    for problem in error.problems if isinstance(error, InventoryError) else ():
        assert problem.hint
        assert problem.message
        assert problem.where.line >= 1
        assert problem.where.column >= 1
        assert problem.text.isprintable()
        assert problem.where.path.isprintable()


@given(st.binary(max_size=400))
@lenient
def test_any_bytes_are_survived(data: bytes) -> None:
    survives(data)


@given(st.text(max_size=300))
@lenient
def test_any_text_is_survived(text: str) -> None:
    survives(text.encode("utf-8", "surrogatepass"))


@given(st.text("hosts:[]{}&*<>|-?!%@`'\"#,~ \n\t0a.\\U", max_size=120))
@lenient
def test_any_run_of_yaml_signs_is_survived(text: str) -> None:
    survives(text.encode())


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.sampled_from(["no", "gpu-[1:3]", "[1:2]", "{name}", "--api-key", "--port=1", "~/x", "systemd", "16"]),
)  # fmt: skip
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), inner, max_size=6),
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(["hosts", "groups", "defaults", "x-a"]), trees, max_size=4))
@lenient
def test_any_tree_of_known_keys_is_survived(tree: dict[str, Any]) -> None:
    survives(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass"))


@given(st.data())
@lenient
def test_any_edit_of_the_example_is_survived(data: st.DataObject) -> None:
    lines = EXAMPLE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        edit = data.draw(st.sampled_from(["drop", "twice", "indent", "swap", "insert"]))
        if edit == "drop":
            del lines[at]
        elif edit == "twice":
            lines.insert(at, lines[at])
        elif edit == "indent":
            lines[at] = "  " + lines[at]
        elif edit == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            column = data.draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:column] + data.draw(st.text(max_size=3)) + lines[at][column:]
    survives("\n".join(lines).encode("utf-8", "surrogatepass"))


HOSTILE = {
    "brackets": "[" * 100_000,
    "maps": "{a: " * 50_000,
    "dashes": "- " * 100_000,
    "questions": "? " * 100_000,
    "indents": "\n".join(" " * n + "a:" for n in range(400)),
    "a long flow list": "x-a: [" + "a, " * 100_000 + "]",
    "one long line": "a" * 500_000,
    "an impossible escape": 'x: "\\UFFFFFFFF"',
    "half a character": 'hosts: {a: {root: "\\ud800"}}',
    "a directive": "%YAML 99999999999999999999.1\n---\na: 1\n",
    "merged aliases": "x-0: &b0 {k: 1}\n"
    + "".join(f"x-{n}: &b{n} {{<<: [{','.join([f'*b{n - 1}'] * 9)}], k{n}: 1}}\n" for n in range(1, 10)),
    "a chain of groups": "groups:\n" + "".join(f"  g{n}: {{groups: g{n + 1}}}\n" for n in range(900)),
    "a fleet in each of many groups": "hosts:\n  h[1:4000]: {servers: [<server>]}\ngroups:\n"
    + "".join(f'  g{n}: {{hosts: "h[1:4000]"}}\n' for n in range(900)),
    "a large environment on a large fleet": "hosts:\n  h[1:4000]:\n    servers:\n"
    + "      - name: a\n        port: 1\n        model: /m\n        env:\n"
    + "".join(f"          V{n}: x\n" for n in range(2000)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_file_made_to_exhaust_the_loader_is_refused(text: str) -> None:
    with pytest.raises(SpecctlError):
        parse(text)


@pytest.mark.parametrize("path", sorted((CASES / "refused").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_of_something_else_is_refused_and_not_read_as_hosts(path: Path) -> None:
    with pytest.raises(SpecctlError, match="1 problem"):
        parse(path.read_bytes())
