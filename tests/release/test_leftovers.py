"""After a first deploy that failed, its operator is told what lies there and how to remove it."""

from __future__ import annotations

from dataclasses import replace

from config.builders import make_host

from release.facts import IDS, host_facts
from specctl.release.leftovers import leftovers
from specctl.release.state import HostState, ReleaseState

HOST = make_host(root="/srv/app")
FAILED = HostState(exists=True, releases={IDS["A"]: ReleaseState(IDS["A"], complete=False, failed="it died")})


def test_what_is_left_and_how_to_remove_it_is_one_sentence_with_a_command() -> None:
    told = leftovers(HOST, FAILED)
    assert told
    assert f"left there: {IDS['A']}, and a cache" in told
    assert told.endswith("cd /srv/app && rm -rf releases servers cache bin wheels deadman supervisor")
    assert "sudo sh -c 'cd /srv/app" in str(leftovers(replace(HOST, sudo=True), FAILED))


def test_a_supervisor_that_was_brought_along_is_ended_first() -> None:
    told = str(leftovers(HOST, replace(FAILED, supervisor=True)))
    assert "a running supervisor" in told
    assert "supervisorctl -c /srv/app/supervisor/supervisord.conf shutdown; cd /srv/app" in told


def test_where_something_works_nothing_is_called_a_leftover() -> None:
    case = {"releases": {"A": "complete"}, "current": "A", "goods": ["A"]}
    assert leftovers(HOST, host_facts(case).state) is None
    assert leftovers(HOST, HostState()) is None
