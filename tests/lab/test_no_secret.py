"""A secret that an inventory names must be in the two 0600 files that its server reads, and nowhere else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .deploying import Site, by_host
from .machine import Machine
from .planted import (
    ADMIN,
    KEY,
    VALUES,
    crash_in,
    files_here,
    files_there,
    found_in,
    journal,
    plant,
    watching_processes,
)
from .test_deploy_fleet import site as site  # the fixture

pytestmark = pytest.mark.lab

OWN_FILES = {"secrets.env", "secret-args.yaml"}


class Said:
    """Runs verbs and keeps all that they said, by verb."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.texts: dict[str, str] = {}

    def __call__(self, verb: str, *words: str, code: int | None = 0) -> str:
        done = self.site.call(verb, *words)
        text = done.stdout + done.stderr
        self.texts[f"{len(self.texts)}: {verb} {' '.join(words)}"] = text
        assert code is None or done.returncode == code, f"{verb} {words}: {text[-3000:]}"
        return text


@pytest.fixture
def planted(site: Site) -> Site:
    """A site on a system's and a user's manager whose servers have every kind of secret."""
    site.host("h1", sudo=True)
    site.host("h2", supervisor="systemd-user")
    for name in site.hosts:
        plant(site, site.hosts[name]["servers"][0])
    # what other tests left in the journals of hosts that they share must not count
    for name in site.hosts:
        machine = site.lab.machine(name)
        machine.shell("journalctl --rotate -q; journalctl --vacuum-time=1s -q", check=False)
    return site


def test_a_deploy_and_its_way_back_leave_a_planted_secret_nowhere_else(planted: Site) -> None:
    del planted.hosts["h2"]

    def few(say: Said) -> None:
        say("deploy", "--dist", str(planted.dist(1)), "--yes", "--json")
        say("deploy", "--dist", str(planted.dist(2, die_at_start="1")), "--yes", code=6)
        assert "server_args=" in say("logs")

    search(planted, few)


@pytest.mark.slow
def test_a_planted_secret_is_found_nowhere_but_where_the_server_reads_it(planted: Site) -> None:
    search(planted, lambda say: every_verb(planted, say, f"{planted.tag}-a"))


def search(site: Site, verbs: Callable[[Said], None]) -> None:
    """Run verbs, then look for what was planted in all that they said and left behind."""
    say = Said(site)
    with watching_processes() as watch:
        verbs(say)
    leaks = {verb: names for verb, text in say.texts.items() if (names := found_in(text))}
    assert not leaks
    assert watch.looks > 50
    lines = {line for line in watch.seen if found_in(line)}
    assert not lines, "seen by ps"
    assert not files_here(site.folder, site.folder / "sources")
    for name in site.hosts:
        on_host(site, name, f"{site.tag}-a")


def every_verb(site: Site, say: Said, server: str) -> None:
    """Each verb at least once, as text and as JSON, where it works and where it fails."""
    one, broken, third = (
        str(site.dist(1)),
        str(site.dist(2, die_at_start="1")),
        str(site.dist(3)),
    )
    for words in ([], ["--json"]):
        say("hosts", *words)
        say("doctor", *words, code=1)  # the lab has no model
        say("plan", "--dist", one, *words, code=3)
        say("diff", "--dist", one, *words, code=3)
    say("sudoers", "--json")
    say("deploy", "--dist", one, "--dry-run", code=3)
    say("deploy", "--dist", one, "--yes")
    assert "dies at start on purpose" in say("deploy", "--dist", broken, "--yes", code=6)
    say("deploy", "--dist", third, "--yes", "--json")
    for words in ([], ["--json"]):
        say("verify", "--exercise", "--hold", "1", *words)
        say("status", *words)
        say("history", *words)
        say("watch", "--once", *words, code=None)
        assert "server_args=" in say("logs", *words)
    say("threshold get", server)
    for value in ("15", "16"):
        say("threshold set", server, value)
    say("restart")
    say("stop")
    say("start", "--json")
    sweep = ["--levels", "1,2", "--waves", "1", "--repetitions", "1", "--context", "32", "--output-len", "4"]
    where = ["--hosts", "h1", "--out", str(site.folder / "tune"), "--no-apply", "--no-plots"]
    say("tune", server, *where, *sweep, code=None)
    say("rollback", "--yes", "--json")
    say("prune", "--yes", "--keep", "1")
    say("unlock", code=None)
    # a changed key, so that the old one is kept for the way back, and the way back is taken
    site.env["SOURCE_KEY"] += "-2"
    say("deploy", "--dist", broken, "--yes", code=6)
    bugs(site, say, one)


def bugs(site: Site, say: Said, dist: str) -> None:
    """Specctl's own faults, with the secrets in the frames that fail."""
    for module, function in (
        ("specctl.release.survey", "secret_digest"),
        ("specctl.release.actions.switch", "env_file"),
        ("specctl.cli.release_run", "show_results"),
    ):
        site.env["PYTHONPATH"] = crash_in(site.folder / "bug", module, function)
        assert "a bug, for the test" in say("deploy", "--dist", dist, "--yes", code=None)
    del site.env["PYTHONPATH"]
    say("deploy", "--dist", dist, "--yes")


def on_host(site: Site, name: str, server: str) -> None:
    """The whole file system of a host, its journals, and the modes of what may hold a secret."""
    machine = site.lab.machine(name)
    hits = files_there(machine, "journal")
    folder = f"/srv/app/{site.tag}/servers/{server}"
    assert hits == {f"{folder}/{file}": "600" for file in OWN_FILES}
    # SGLang prints its arguments, keys among them, when it starts: the server's own line, nobody else's
    for line in journal(machine):
        assert line.startswith("MESSAGE="), line
        assert "server_args=" in line
        assert set(found_in(line)) <= {KEY, ADMIN}


@pytest.mark.slow
def test_an_operator_who_is_killed_leaves_no_secret_behind(planted: Site) -> None:
    del planted.hosts["h2"]
    planted.deploy(1)
    planted.env["SOURCE_KEY"] += "-2"
    process = planted.start("deploy", "--dist", str(planted.dist(2, start_s="600")), "--yes")
    assert process.stderr is not None
    while f"start {planted.tag}-a ok" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    machine = planted.lab.machine("h1")
    hits = files_there(machine, "journal")
    # the old key is kept for the host's own undo, as safe as the new one
    assert set(hits.values()) == {"600"}
    assert {Path(path).name.split("-")[0] for path in hits} == {"secrets.env", "secret", "secrets"}
    end = time.monotonic() + 240
    folder = f"/srv/app/{planted.tag}"
    look = f"readlink {folder}/servers/*/current; ls {folder}/deadman"
    while not {"0.5.9+specctl.1-", "fired.json"} <= seen(machine, look):
        assert time.monotonic() < end
        time.sleep(1)
    assert planted.json("status", code=3)["hosts"][0]["servers"][0]["process"] == "running"
    assert set(files_there(machine, "journal").values()) == {"600"}
    assert by_host(planted.deploy(1))["h1"]["outcome"] in ("done", "unchanged")
    names = {Path(path).name for path in files_there(machine, "journal")}
    assert names == OWN_FILES, "secrets kept for the way back outlive it"


def test_the_search_finds_what_is_planted(planted: Site, tmp_path: Path) -> None:
    """The searches themselves: a secret in argv, in a file here, on a host and in its journal."""
    machine = planted.lab.machine("h1")
    with watching_processes() as watch:
        planted.lab.machine("h1").run("sh", "-c", "sleep 0.3; : planted-key")
    assert any(found_in(line) for line in watch.seen)
    (tmp_path / "leak").write_text(VALUES[KEY])
    assert files_here(tmp_path, tmp_path / "sources") == {str(tmp_path / "leak"): [KEY]}
    machine.write("/srv/leak", VALUES[KEY])
    try:
        assert files_there(machine, "journal") == {"/srv/leak": "644"}
    finally:
        machine.run("rm", "/srv/leak")
    machine.shell("echo planted-key | systemd-cat -t leak; journalctl --sync")
    assert journal(machine)


def seen(machine: Machine, line: str) -> set[str]:
    """The last parts of the paths that a line prints, cut to the length of a version."""
    return {word.split("/")[-1][:16] for word in machine.shell(line, check=False).split()}
