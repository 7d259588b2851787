"""Names, paths and values with blanks, quotes, line breaks and signs of shells: as they are, or refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from supervisor.options import ServerOptions

from specctl.errors import SpecctlError, UsageError
from specctl.host.local import LocalHost
from specctl.service.protocol import Unit
from specctl.service.supervisor_conf import SupervisorPaths, render_daemon, render_launcher, render_program
from specctl.service.systemd_unit import render_unit

few = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SIGNS = "aA1 -_.,:;#'\"\\%$`(){}[]*?!~&|<>=+@^\n\t"
words = st.text(
    st.sampled_from(SIGNS) | st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12
)
segments = words.map(lambda text: text.replace("/", "")).filter(
    lambda text: text.strip(".") != "" and len(text.encode()) < 60
)
variables = st.from_regex(r"[A-Z_][A-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name not in ("_", "PWD")
)
NASTY = [
    "two words", "it's", 'a"b', "a\nb", "$(touch pwned)", "`touch pwned`", "; touch pwned", "a && touch x",
    "100%", "%n", "%(here)s", "$HOME", "-rf", "--", "*", "[ab]", "a\\b", "~root", "#x", "ünïcode 🚀", "a\tb",
]  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; everything that is made by mistake is made there."""
    made = Path(tempfile.mkdtemp(prefix="odd"))
    yield made
    shutil.rmtree(made)


# -- files on a host, through its real shell


@pytest.mark.parametrize("name", NASTY)
def test_a_file_of_any_name_is_written_read_and_replaced_and_nothing_else_happens(
    folder: Path, name: str
) -> None:
    host, path = LocalHost("h1"), f"{folder}/{name}"
    host.write(b"one", path)
    host.write(b"two", path)
    assert host.read(path) == b"two"
    shown = host.run(["cat", "--", path], cwd=str(folder), env={"V": name})
    assert shown.stdout == b"two"
    assert host.run(["sh", "-c", 'printf %s "$V"'], env={"V": name}).stdout.decode() == name
    assert [p.name for p in folder.iterdir()] == [name]


@pytest.mark.parametrize("name", NASTY)
def test_a_command_runs_in_a_folder_of_any_name(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    assert LocalHost("h1").run(["pwd"], cwd=f"{folder}/{name}").stdout.decode() == f"{folder}/{name}\n"
    assert [p.name for p in folder.iterdir()] == [name]


# -- the launcher that supervisor runs, by /bin/sh

SHOW = "import json,os,sys;print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"


@given(args=st.lists(words, max_size=4), env=st.dictionaries(variables, words, max_size=3), name=segments)
@few
def test_a_launcher_hands_over_any_arguments_and_values_in_any_folder(
    args: list[str], env: dict[str, str], name: str
) -> None:
    with tempfile.TemporaryDirectory() as top:
        there = Path(top, name)
        there.mkdir()
        env = {f"X{key}": value for key, value in env.items()}
        unit = Unit("specctl-x", "x", (sys.executable, "-c", SHOW, *args), str(there), env)
        launcher = there / "run.sh"
        launcher.write_text(render_launcher(unit), encoding="utf-8")
        done = subprocess.run(["/bin/sh", launcher], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        seen, variables, cwd = json.loads(done.stdout.splitlines()[-1])
        assert seen == args
        assert {key: variables[key] for key in env} == env
        assert cwd == str(there.resolve())
        assert [p.name for p in there.iterdir()] == ["run.sh"]


# -- supervisor's own reader


@given(name=segments)
@example(name="a%b")
@example(name="a%(here)s$HOME")
@example(name="a[b]")
@example(name="{a,b}")
@few
def test_supervisor_reads_any_root_as_it_is_or_it_is_refused(name: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        root = Path(top, name)
        paths = SupervisorPaths(str(root))
        unit = Unit("specctl-x", "x", ("/bin/true",), str(root), log_file=f"{root}/server.log")
        try:
            daemon, program = render_daemon(paths), render_program(unit, f"{root}/run.sh")
        except UsageError:
            return
        Path(paths.programs).mkdir(parents=True)
        Path(paths.conf).write_text(daemon, encoding="utf-8")
        Path(paths.program(unit.name)).write_text(program, encoding="utf-8")
        options = ServerOptions()
        options.realize(args=["-n", "-c", paths.conf])
        (group,) = options.process_group_configs
        (seen,) = group.process_configs
        assert (seen.name, seen.directory, seen.command) == (unit.name, str(root), f"/bin/sh {root}/run.sh")
        assert seen.stdout_logfile == f"{root}/server.log"
        assert options.pidfile == f"{paths.folder}/supervisord.pid"
        assert options.server_configs[0]["file"] == paths.socket


# -- unit files


def settings_of(text: str) -> list[str]:
    """The names of a unit's settings, its lines cut where systemd cuts them."""
    return [line.partition("=")[0] for line in re.split("[\n\r\0]", text)]


@given(text=words, user_manager=st.booleans())
@settings(max_examples=200)
def test_no_text_adds_a_setting_to_a_unit(text: str, user_manager: bool) -> None:
    unit = Unit("specctl-x", "x", ("/bin/true", "a"), "/srv/x", {"V": "w"}, env_file="/srv/x/env", user="ann")
    plain = settings_of(render_unit(unit, user_manager=user_manager))
    for change in (
        {"description": text},
        {"argv": ("/bin/true", text)},
        {"argv": (f"/{text}", "a")},
        {"env": {"V": text}},
        {"working_dir": f"/srv/{text}"},
        {"env_file": f"/srv/{text}"},
        {"user": f"ann{text}"},
    ):
        try:
            rendered = render_unit(replace(unit, **change), user_manager=user_manager)
        except SpecctlError:
            continue
        assert settings_of(rendered) == plain


@pytest.mark.parametrize("path", ["/srv/*", "/srv/a?", "/srv/[ab]"])
def test_a_path_that_stands_for_several_is_refused(path: str) -> None:
    unit = Unit("specctl-x", "x", ("/bin/true",), "/srv/x", env_file=f"{path}/secrets.env")
    with pytest.raises(UsageError):
        render_unit(unit, user_manager=False)
    with pytest.raises(UsageError):
        render_daemon(SupervisorPaths(path))
