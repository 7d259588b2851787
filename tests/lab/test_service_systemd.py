"""A server's life under a real systemd and its journal, over ssh: the system's manager and a user's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from specctl.host.protocol import Host
from specctl.host.ssh import SshHost
from specctl.service.envfile import render_env_file
from specctl.service.errors import ServiceError
from specctl.service.protocol import Cursor, LogLine, Unit
from specctl.service.systemd import SystemdService

from .hosts import ssh_to
from .lab import Lab

pytestmark = pytest.mark.lab

MARK = "Dynamic speculation disable enabled"
FOLDER = "/srv/app"
PYTHON = "/usr/bin/python3"
SERVE = (
    "import signal, sys, time\n"
    "print('first line', flush=True)\n"
    f"print('{MARK}: tp_rank=0 ' + ' '.join(sys.argv[1:]), flush=True)\n"
    "time.sleep(600)\n"
)
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'\n"
    "subprocess.Popen([sys.executable, '-c', child], start_new_session=True)\n"
    "print('up', flush=True)\n"
    "time.sleep(600)\n"
)
NASTY = [
    *("plain", "", "two words", "tab\there", 'quote"inside', "quote'inside", "back\\slash", "line\nbreak"),
    *("100%", "%n", "$HOME", "${HOME}", "$$", "a;b", ";", "#no comment", "`id`", "$(id)", "trailing\\"),
    *("ünïcode 🚀", '{"a": ["b", 1.5]}', "-", "@x", "\x01\x7f"),
]
FLOOD = (
    f"import time\nfor i in range(30000): print('line', i)\nprint('{MARK}', flush=True)\ntime.sleep(600)\n"
)


@dataclass
class Site:
    """One unit on one lab host."""

    host: Host
    service: SystemdService
    lab: Lab

    def unit(self, code: str, *args: str, **more: Any) -> Unit:
        argv = (PYTHON, "-c", code, *args)
        user = None if self.service.user else "deploy"
        return Unit(**{"name": self.service.plain, "description": "lab 100% test", "argv": argv,
                       "working_dir": FOLDER, "user": user, "stop_s": 2.0, **more})  # fmt: skip

    def systemctl(self, *words: str) -> str:
        command = ["systemctl", *(["--user"] if self.service.user else []), *words]
        env = {"XDG_RUNTIME_DIR": f"/run/user/{self.service.account.uid}"}
        return self.host.run(command, sudo=self.service.sudo, env=env).text

    def output(self, cursor: Cursor, **more: Any) -> list[str]:
        return [line.text for line in self.service.lines_since(cursor, **more).lines]


@pytest.fixture(params=["system", "user"])
def site(request: pytest.FixtureRequest, in_lab: Lab) -> Iterator[Site]:
    host = SshHost("h1", ssh_to(in_lab, "h1"))
    user = request.param == "user"
    service = SystemdService(
        host, f"specctl-t{abs(hash(request.node.name)) % 10**6}", user=user, sudo=not user
    )
    yield Site(host, service, in_lab)
    service.uninstall()
    host.close()


def until(what: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.1)


def test_a_unit_is_installed_once_and_every_argument_variable_and_secret_arrives(site: Site) -> None:
    code = (
        "import json, os, sys\n"
        "keep = {k: os.environ[k] for k in ('PLAIN', 'NASTY', 'TOKEN')}\n"
        "print(json.dumps([sys.argv[1:], keep, os.getcwd(), os.getuid()]), flush=True)\n"
    )
    token = "sp ace \"quoted\" 'single' back\\slash $HOME `id` %n #x;"
    secrets = f"{FOLDER}/{site.service.plain}.env"
    site.host.write(render_env_file({"TOKEN": token}), secrets, mode=0o600)
    env = {"PLAIN": "1", "NASTY": 'a "b" $c ${d} %h \\e\n#f'}
    unit = site.unit(code, *NASTY, env=env, env_file=secrets)
    assert site.service.install(unit)
    assert not site.service.install(unit)
    assert site.service.installed(unit)
    cursor = site.service.cursor()
    site.service.start()
    until(lambda: site.output(cursor))
    argv, seen, cwd, uid = json.loads(site.output(cursor)[0])
    assert argv == NASTY
    assert seen == {**env, "TOKEN": token}
    assert (cwd, uid) == (FOLDER, site.service.account.uid)
    assert "sp ace" not in site.systemctl("cat", site.service.name)


def test_a_restart_is_a_new_invocation_and_only_its_own_lines_count(site: Site) -> None:
    service = site.service
    service.install(site.unit(SERVE, "one"))
    service.start()
    until(lambda: service.state().running)
    first = service.state()
    assert (first.active, first.sub, first.restarts) == ("active", "running", 0)
    assert abs((first.since or 0) - float(site.host.run(["date", "+%s"]).text)) < 30
    until(lambda: len(site.output(Cursor("journal:"), match=[MARK], invocation=first.invocation)) == 1)
    service.install(site.unit(SERVE, "two"))
    cursor = service.restart(5)
    until(lambda: site.output(cursor, match=[MARK]))
    second = service.state()
    assert second.invocation not in ("", first.invocation)
    found = service.lines_since(cursor, invocation=second.invocation)
    # the very first line after the cursor is there: a reader that skips it would miss an early marker
    assert [line.text for line in found.lines] == ["first line", f"{MARK}: tp_rank=0 two"]
    assert {line.invocation for line in found.lines} == {second.invocation}
    assert (found.complete, found.dropped, found.not_utf8, found.seen) == (True, 0, 0, 2)
    stale = service.lines_since(cursor, invocation=second.invocation, match=["tp_rank=0 one"])
    assert stale.lines == ()
    assert [line.text for line in stale.earlier] == [f"{MARK}: tp_rank=0 one"]
    assert stale.dropped == 0


def test_a_server_and_its_stray_that_ignore_sigterm_are_gone_after_stop(site: Site) -> None:
    site.service.install(site.unit(STUBBORN))
    site.service.start()
    until(lambda: site.output(Cursor("journal:")))
    cgroup = site.service.state().cgroup
    outcome = site.service.stop(2.0)
    assert outcome.was_running
    assert outcome.killed, outcome
    state = site.service.state()
    assert state.active in ("inactive", "failed")
    assert state.main_pid == 0
    left = site.lab.machine("h1").run("sh", "-c", f"cat /sys/fs/cgroup{cgroup}/cgroup.procs", check=False)
    assert "No such file" in left or left.strip() == ""
    assert site.service.stop(2.0).was_running is False


def test_a_server_that_dies_again_and_again_is_seen_by_its_restarts_and_its_result(site: Site) -> None:
    code = "import sys; print('dying', flush=True); sys.exit(3)"
    site.service.install(site.unit(code, start_limit=2))
    site.service.start()
    until(lambda: site.service.state().result == "exit-code", 40)  # until it runs again, and after it gave up
    until(lambda: (site.service.state().restarts or 0) >= 1, 40)
    assert site.service.stop(2.0).was_running is False
    assert site.service.state().active in ("inactive", "failed")


def test_a_program_that_is_not_there_fails_the_start_itself(site: Site) -> None:
    site.service.install(replace(site.unit(""), argv=("/srv/app/none/python", "-m", "x")))
    with pytest.raises(ServiceError) as caught:
        site.service.start()
    assert site.service.name in caught.value.message
    assert caught.value.context["host"] == "h1"


def test_a_units_own_limit_lets_every_line_through_and_a_user_units_loss_is_not_taken_for_absence(
    site: Site,
) -> None:
    site.service.install(site.unit(FLOOD))
    cursor = site.service.restart(5)
    time.sleep(5)
    found = site.service.lines_since(cursor, match=[MARK])
    if (
        site.service.user
    ):  # journald has its own limit for these, and announces the loss only with the next line
        assert found.lines == ()
        assert found.seen < 30001
        assert found.dropped is None
        assert "journald may drop" in found.reason
    else:
        assert [line.text for line in found.lines] == [MARK]
        assert (found.seen, found.dropped, found.complete) == (30001, 0, True)


def test_lines_that_journald_says_it_dropped_are_counted(site: Site) -> None:
    if site.service.user:
        pytest.skip("a user unit's limit is journald's own")
    file = site.service.files(site.unit(FLOOD.replace("sleep(600)", "sleep(8); print('later', flush=True)")))[
        0
    ]
    text = (
        file.data.decode().replace("IntervalSec=1s", "IntervalSec=5s").replace("Burst=1000000000", "Burst=50")
    )
    site.service.install(site.unit(FLOOD))
    site.host.write(text.encode(), file.path, sudo=True)
    site.systemctl("daemon-reload")
    cursor = site.service.restart(5)
    time.sleep(3)
    assert site.service.lines_since(cursor, match=[MARK]).dropped is None  # not announced yet
    until(lambda: (site.service.lines_since(cursor, match=[MARK]).dropped or 0) > 0, 60)
    found = site.service.lines_since(cursor, match=[MARK])
    assert found.lines == ()
    assert (found.dropped or 0) + found.seen == 30002  # with the line that came later


def test_bytes_that_are_not_utf8_and_huge_lines_come_through(site: Site) -> None:
    code = (
        "import sys, time\n"
        "w = sys.stdout.buffer\n"
        "w.write(b'caf\\xe9 \\x1b[31mred\\x1b[0m \\xf0\\x9f\\x9a\\x80\\r\\n')\n"
        "w.write(b'x' * 300000 + b'\\n')\n"
        f"w.write(b'\\xff {MARK} \\xff\\n'); w.flush()\n"
        "time.sleep(600)\n"
    )
    site.service.install(site.unit(code))
    cursor = site.service.restart(5)
    until(lambda: site.output(cursor, match=[MARK]))
    found = site.service.lines_since(cursor, match=[MARK])
    assert found.lines[0].text == f"\ufffd {MARK} \ufffd"
    assert not found.lines[0].utf8
    assert found.not_utf8 == 2
    everything = site.service.lines_since(cursor)
    assert everything.lines[0].text.startswith("caf\ufffd")
    assert any(line.cut for line in everything.lines)


def test_following_shows_new_lines_as_they_come(site: Site) -> None:
    code = "import time\nfor i in range(600): print('tick', i, flush=True); time.sleep(0.2)\n"
    site.service.install(site.unit(code))
    site.service.start()
    until(lambda: len(site.output(Cursor("journal:"))) > 3)
    lines: list[LogLine] = []

    def take(line: LogLine) -> bool:
        lines.append(line)
        return len(lines) < 8

    site.service.follow(take, history=2, timeout_s=30)
    numbers = [int(line.text.split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def test_a_unit_survives_a_reboot_and_its_old_marker_is_stale(site: Site) -> None:
    site.service.install(site.unit(SERVE, "one"))
    site.service.start()
    until(lambda: site.service.state().running)
    before = site.service.state()
    cursor = site.service.cursor()
    site.host.close()
    site.lab.machine("h1").reboot()
    until(lambda: site.service.state().running, 60)
    after = site.service.state()
    assert after.invocation != before.invocation
    until(lambda: site.output(cursor, match=[MARK], invocation=after.invocation))
    found = site.service.lines_since(cursor, match=[MARK], invocation=before.invocation)
    assert found.lines == ()
