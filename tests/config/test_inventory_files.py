"""Files and folders: encodings, sizes, several files as one inventory, paths on the operator's machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.cases import SERVER, parse
from specctl.config.decode import MAX_BYTES
from specctl.config.inventory import load_inventory
from specctl.config.problems import InventoryError
from specctl.errors import UsageError

ENVIRON = {"HOME": "/home/op"}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text.replace("<server>", SERVER), encoding="utf-8")
    return folder


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(InventoryError) as caught:
        parse(data)
    (problem,) = caught.value.problems
    return problem.code, f"{problem.where.line}:{problem.where.column} {problem.message}"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hosts:\n  caf\xe9: {}\n", ("not-utf8", "2:6 byte 0xe9 is not UTF-8")),
        ("hosts:\n".encode("utf-16"), ("not-utf8", "1:1 the file is UTF-16")),
        (
            b"hosts:\n  a\x00b: {}\n",
            ("control-character", "2:4 the character U+0000 may not be in a YAML file"),
        ),
        (b"hosts: \x1b[31m\n", ("control-character", "1:8 the character U+001B may not be in a YAML file")),
        (
            b"#" * (MAX_BYTES + 1),
            ("too-large", "1:1 an inventory file may have 524,288 bytes; this one has 524,289 bytes"),
        ),
        (b"", ("empty", "1:1 the inventory is empty")),
    ],
    ids=["latin-1", "utf-16", "nul", "escape", "too large", "empty"],
)
def test_bytes_that_are_no_inventory_are_refused_where_they_begin(
    data: bytes, expected: tuple[str, str]
) -> None:
    assert refusal(data) == expected


def test_a_byte_order_mark_and_carriage_returns_are_read_past() -> None:
    text = f"\ufeffhosts:\r\n  a: {{servers: [{SERVER}]}}\r\n"
    assert [host.name for host in parse(text.encode()).hosts] == ["a"]


def test_no_more_of_a_huge_file_is_read_than_is_needed_to_refuse_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a sparse terabyte: reading all of it would not come back
    with pytest.raises(InventoryError, match="1 problem"):
        load_inventory(path, environ=ENVIRON)


def test_the_files_of_a_folder_are_one_inventory_with_defaults_of_their_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="defaults: {python: python3.11}\nhosts:\n  a: {servers: [<server>]}\n",
        b="hosts:\n  b: {servers: [<server>]}\ngroups:\n  both: {hosts: [a, b]}\n",
        example="this is: [not, read",
    )
    (tmp_path / "notes.txt").write_text("not read either", encoding="utf-8")
    (tmp_path / ".#a.yaml").write_text("an editor's lock", encoding="utf-8")
    inventory = load_inventory(tmp_path, environ=ENVIRON)
    assert [(host.name, host.python) for host in inventory.hosts] == [("a", "python3.11"), ("b", "python3")]
    assert inventory.groups == {"both": ("a", "b")}


def test_a_host_or_group_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    one = "hosts:\n  a: {servers: [<server>]}\ngroups:\n  g: {hosts: a}\n"
    write(tmp_path, one=one, two=one)
    with pytest.raises(InventoryError) as caught:
        load_inventory(tmp_path, environ=ENVIRON)
    told = {problem.code: f"{problem.where} {problem.message}" for problem in caught.value.problems}
    assert set(told) == {"duplicate-host", "duplicate-group"}
    for text in told.values():
        assert "two.yaml" in text
        assert "one.yaml" in text


def test_a_file_that_cannot_be_parsed_does_not_make_its_hosts_unknown_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, a="hosts: [", b="groups:\n  g: {hosts: a}\nhosts:\n  b: {servers: [<server>]}\n")
    with pytest.raises(InventoryError) as caught:
        load_inventory(tmp_path, environ=ENVIRON)
    assert [problem.code for problem in caught.value.problems] == ["syntax"]


def test_a_folder_with_only_the_example_is_not_deployed_by_accident(tmp_path: Path) -> None:
    write(tmp_path, example="hosts:\n  a: {servers: [<server>]}\n")
    with pytest.raises(UsageError) as caught:
        load_inventory(tmp_path, environ=ENVIRON)
    assert caught.value.code == "no-inventory"
    assert f"-i {tmp_path / 'example.yaml'}" in str(caught.value.hint)
    assert load_inventory(tmp_path / "example.yaml", environ=ENVIRON).hosts[0].name == "a"


@pytest.mark.parametrize("name", ["missing.yaml", "folder-without-yaml"])
def test_an_inventory_that_is_not_there_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder-without-yaml").mkdir()
    with pytest.raises(UsageError) as caught:
        load_inventory(tmp_path / name, environ=ENVIRON)
    assert caught.value.code == "no-inventory"
    assert name in f"{caught.value.message} {caught.value.context}"


def test_paths_on_this_machine_begin_at_home_or_at_the_file_that_says_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="""
            defaults:
              ssh: {identity_file: ~/.ssh/id, known_hosts: keys/known, config_file: none}
              server: {secrets: {HF_TOKEN: {file: ../token}}}
            hosts:
              a: {wheelhouse: /abs/wheels, servers: [<server>]}
              b: {wheelhouse: "~", servers: [<server>]}
        """,
    )
    a, b = load_inventory(tmp_path, environ=ENVIRON).hosts
    assert a.ssh.identity_file == "/home/op/.ssh/id"
    assert a.ssh.known_hosts == str(tmp_path / "keys/known")
    assert a.ssh.config_file == "none"
    assert a.servers[0].secrets["HF_TOKEN"].source == str(tmp_path / "../token")
    assert a.wheelhouse == "/abs/wheels"
    assert b.wheelhouse == "/home/op"


def test_without_home_a_path_below_it_is_refused() -> None:
    with pytest.raises(InventoryError, match="1 problem") as caught:
        parse("hosts:\n  a: {wheelhouse: ~/w, servers: [<server>]}\n", home=None)
    assert "HOME is not set" in caught.value.problems[0].message


def test_ssh_options_say_which_of_them_the_inventory_set() -> None:
    text = """
        hosts:
          a:
            address: 10.0.0.1
            ssh:
              port: 22
              host_keys: accept-new
              connect_timeout: 2m
              command_timeout: 1.5
              identities_only: on
              jumps:
                - {address: hop-1, user: jump, port: 2222, known_hosts: /kh, connect_timeout: 3s}
                - {address: hop-2}
            servers: [<server>]
          direct: {ssh: {jumps: none}, servers: [<server>]}
          silent: {servers: [<server>]}
    """
    a, direct, silent = parse(text).hosts
    assert (a.ssh.address, a.ssh.port, a.ssh.host_keys.value) == ("10.0.0.1", 22, "accept-new")
    assert (a.ssh.connect_timeout_s, a.ssh.command_timeout_s, a.ssh.identities_only) == (120.0, 1.5, True)
    first, second = a.ssh.jumps
    assert (first.address, first.user, first.port, first.known_hosts) == ("hop-1", "jump", 2222, "/kh")
    assert first.connect_timeout_s == 3.0
    assert (second.address, second.port, second.explicit) == ("hop-2", 22, frozenset())
    expected = {"port", "host_keys", "connect_timeout_s", "command_timeout_s", "identities_only", "jumps"}
    assert a.ssh.explicit == expected
    assert direct.ssh.jumps == ()
    assert direct.ssh.explicit == {"jumps"}
    assert silent.ssh.explicit == frozenset()


def test_the_search_ends_when_a_file_has_hundreds_of_problems() -> None:
    text = "hosts:\n" + "".join(f"  bad@{n}: {{}}\n" for n in range(5000))
    with pytest.raises(InventoryError) as caught:
        parse(text)
    assert len(caught.value.problems) == 200
    assert "150 further problems" in caught.value.context["more"]
