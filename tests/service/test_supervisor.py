"""The whole life of a server under a real supervisord, with a stand-in for SGLang."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from standin.supervised import Site, healthy, until

from specctl.host.local import LocalHost
from specctl.service.errors import SupervisorMissing
from specctl.service.onhost import processes
from specctl.service.protocol import Cursor, LogLine, Unit
from specctl.service.supervisor import REQUIREMENT, SupervisorService

pytest.importorskip("supervisor", reason="the test extra's supervisor is not installed")
MARK = "Dynamic speculation disable enabled"


def test_install_changes_nothing_the_second_time_and_does_not_start(site: Site) -> None:
    assert site.service.install(site.unit())
    assert not site.service.install(site.unit())
    assert site.service.installed(site.unit())
    assert not site.service.installed(site.unit(slow_s="1"))
    assert site.service.state().main_pid == 0


def test_a_restart_is_a_new_invocation_and_its_marker_lies_after_the_cursor(site: Site) -> None:
    service = site.service
    service.install(site.unit())
    assert service.stop(5).was_running is False
    service.start()
    until(lambda: healthy(site.server.port))
    until(lambda: service.state().running)
    first = service.state()
    assert (first.active, first.sub) == ("active", "RUNNING")
    cursor = service.restart(10, port=site.server.port)
    until(lambda: healthy(site.server.port))
    second = service.state()
    assert second.invocation not in ("", first.invocation)
    found = service.lines_since(cursor, invocation=second.invocation, match=[MARK])
    assert [MARK in line.text for line in found.lines] == [True]
    assert found.complete
    assert len(found.earlier) == 1
    assert service.lines_since(cursor, invocation=first.invocation, match=[MARK]).lines == ()


def test_a_changed_unit_takes_effect_at_the_next_restart(site: Site) -> None:
    site.service.install(site.unit())
    site.service.restart(10)
    until(lambda: healthy(site.server.port))
    assert site.service.install(site.unit(no_marker="1"))
    until(lambda: site.service.state().running)
    cursor = site.service.restart(10, port=site.server.port)
    until(lambda: healthy(site.server.port))
    found = site.service.lines_since(cursor, match=[MARK])
    assert found.lines == ()
    assert found.seen > 0


def test_a_server_and_its_stray_that_ignore_sigterm_are_gone_after_stop(site: Site) -> None:
    site.service.install(site.unit(ignore_sigterm="1", stray_child="1"))
    site.service.start()
    until(lambda: healthy(site.server.port))
    outcome = site.service.stop(1)
    assert outcome.was_running
    assert outcome.killed
    assert not healthy(site.server.port)
    assert processes.marked(f"SPECCTL_SERVER={site.root}/servers/main") == set()
    assert site.service.state().active == "inactive"


def test_a_server_that_dies_at_once_ends_as_failed_and_its_log_says_why(site: Site) -> None:
    site.service.install(replace(site.unit(die_at_start="1"), start_limit=1))
    site.service.start()
    until(lambda: site.service.state().active == "failed")
    tail = site.service.lines_since(Cursor("file:"), tail=50).tail
    assert any("dies at start" in line.text for line in tail)


def test_a_log_with_the_servers_keys_in_it_is_for_its_owner_alone(site: Site) -> None:
    site.service.install(site.unit())
    site.service.restart(10)
    until(lambda: healthy(site.server.port))
    assert Path(site.service.log_file).stat().st_mode & 0o777 == 0o600
    status = Path(f"/proc/{site.service.state().main_pid}/status").read_text()
    assert "Umask:\t0022" in status  # the server's own files are no logs


def test_following_shows_history_and_new_lines_and_ends_when_told(site: Site) -> None:
    site.service.install(site.unit(flood_lines="10"))
    site.service.restart(10)
    until(lambda: healthy(site.server.port))
    lines: list[LogLine] = []

    def take(line: LogLine) -> bool:
        lines.append(line)
        return len(lines) < 15

    site.service.follow(take, history=3, timeout_s=20)
    assert len(lines) == 15
    assert not any("specctl: invocation" in line.text for line in lines)


def test_a_host_without_supervisor_says_so_before_anything_is_started(tmp_path: Path) -> None:
    service = SupervisorService(LocalHost("here"), "specctl-x", root=str(tmp_path), folder=str(tmp_path))
    assert not service.state().exists
    with pytest.raises(SupervisorMissing):
        service.start()


def test_supervisor_is_installed_from_pushed_wheels_into_a_venv_of_its_own(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    download = [sys.executable, "-m", "pip", "download", "-q", "-d", str(wheels), REQUIREMENT]
    pip = subprocess.run(download, capture_output=True, text=True)
    if pip.returncode:
        pytest.skip(f"supervisor cannot be downloaded here: {pip.stderr.strip().splitlines()[-1][:200]}")
    root = Path(tempfile.mkdtemp(prefix="sv"))  # a UNIX socket's path has little room
    service = SupervisorService(
        LocalHost("here"),
        "specctl-x",
        root=str(root),
        folder=str(root),
        python=sys.executable,
        find_links=str(wheels),
    )
    unit = Unit("specctl-x", "x", ("/bin/sleep", "60"), str(root))
    try:
        assert service.install(unit)
        assert not service.install(unit)
        service.start()
        until(lambda: service.state().running)
        assert service.stop(5).was_running
    finally:
        pid_file = root / "supervisor/supervisord.pid"
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), 15)
            until(lambda: not pid_file.exists())
        shutil.rmtree(root)


def test_two_roots_with_a_server_of_the_same_name_do_not_end_each_other(site: Site, tmp_path: Path) -> None:
    site.service.install(site.unit())
    site.service.restart(10)
    until(lambda: healthy(site.server.port))
    other = SupervisorService(LocalHost("here"), site.service.name, root=str(tmp_path), folder=str(tmp_path))
    assert other.stop(1).was_running is False
    assert healthy(site.server.port)
