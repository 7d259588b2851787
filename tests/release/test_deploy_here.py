"""Deploys and rollbacks on this machine, with real venvs and stand-in servers."""

from __future__ import annotations

from release.sandbox import Sandbox

from specctl.release.result import Outcome


def test_a_first_deploy_serves_and_a_second_one_of_the_same_does_nothing(sandbox: Sandbox) -> None:
    dist = sandbox.dist(1)
    first = sandbox.deploy(dist)
    assert first.error is None, first
    assert first.outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"
    assert sandbox.state().server("main").proven
    assert sandbox.plan(dist).actions == ()
    before = list(sandbox.service("main").calls)
    assert sandbox.deploy(dist).outcome is Outcome.UNCHANGED
    assert sandbox.service("main").calls == before
