"""Whatever a file holds, the loader answers with an inventory or with SpecctlError, never with a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.cases import CASES, SERVER, parse
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


FLEET = "hosts:\n  h[1:4000]: {servers: [<server>]}\n"
HOSTILE = {
    "brackets": ("[" * 100_000, "more than 24 levels"),
    "maps": ("{a: " * 50_000, "more than 24 levels"),
    "dashes": ("- " * 100_000, "more than 24 levels"),
    "questions": ("? " * 100_000, "more than 24 levels"),
    "indents": ("\n".join(" " * n + "a:" for n in range(400)), "more than 24 levels"),
    "a long flow list": ("x-a: [" + "a, " * 60_000 + "]", "more than 50,000 values"),
    "one long line": ("a" * 500_000, "the inventory is not a map"),
    "an impossible escape": ('x: "\\UFFFFFFFF"', "not valid YAML"),
    "half a character": ('hosts: {a: {root: "\\ud800", servers: [<server>]}}', "control character"),
    "a directive": ("%YAML 99999999999999999999.1\n---\na: 1\n", "not valid YAML"),
    "merged aliases": (
        "x-0: &b0 {k: 1}\n"
        + "".join(f"x-{n}: &b{n} {{<<: [{','.join([f'*b{n - 1}'] * 9)}], k: 1}}\n" for n in range(1, 10)),
        "more than 50,000 values",
    ),
    "a chain of groups": (
        "groups:\n" + "".join(f"  g{n}: {{groups: g{n + 1}}}\n" for n in range(900)) + "  g900:\n" + FLEET,
        "groups are nested more than 16 deep",
    ),
    "a chain of groups from its end": (
        "groups:\n  g0:\n" + "".join(f"  g{n}: {{groups: g{n - 1}}}\n" for n in range(1, 900)) + FLEET,
        "groups are nested more than 16 deep",
    ),
    "more hosts than a fleet has": (FLEET + "  i[1:200]: {servers: [<server>]}\n", "more than 4,096 hosts"),
    "more groups than a fleet has": (
        FLEET + "groups:\n" + "".join(f"  g{n}:\n" for n in range(1001)),
        "more than 1,000 groups",
    ),
    "a fleet in each of many groups": (
        FLEET + "groups:\n" + "".join(f'  g{n}: {{hosts: "h[1:4000]"}}\n' for n in range(30)),
        "the groups have too many members",
    ),
    "a large environment on a large fleet": (
        "hosts:\n  h[1:4000]:\n    servers:\n      - name: a\n        port: 1\n        model: /m\n"
        + "        env:\n"
        + "".join(f"          V{n}: x\n" for n in range(300)),
        "the ranges and groups come to too much",
    ),
    "a large environment for each of many servers": (
        "hosts:\n  h:\n    server:\n      model: /m\n      env:\n"
        + "".join(f"        V{n}: x\n" for n in range(2000))
        + "    servers:\n"
        + "".join(f"      - {{name: s{n}, port: {n + 1}, gpus: {n}}}\n" for n in range(600)),
        "the ranges and groups come to too much",
    ),
}


@pytest.mark.parametrize(("text", "told"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_made_to_exhaust_the_loader_is_refused(text: str, told: str) -> None:
    error = answer(text.replace("<server>", SERVER).encode())
    assert isinstance(error, InventoryError)
    assert any(told in problem.message for problem in error.problems), error.problems[0]


@pytest.mark.parametrize("path", sorted((CASES / "refused").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_of_something_else_is_refused_and_not_read_as_hosts(path: Path) -> None:
    with pytest.raises(SpecctlError, match="1 problem"):
        parse(path.read_bytes())
