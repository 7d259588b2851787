"""Disk room on a host over many deploys, good and bad."""

from __future__ import annotations

from pathlib import Path

from release.sandbox import Sandbox
from release.test_environments_here import house as house  # the fixture
from release.test_environments_here import locked_dist, package, run_python
from specctl.host.local import LocalHost
from specctl.release.makers import prune_maker
from specctl.release.remote import Remote
from specctl.release.result import HostResult, Outcome


def versions(sandbox: Sandbox) -> list[str]:
    found = [r.version or "" for r in sandbox.state().releases.values()]
    return sorted(v.rsplit(".", 1)[1] for v in found)


def test_every_deploy_prunes_so_that_the_disk_does_not_fill(sandbox: Sandbox) -> None:
    sandbox.changes = {"keep_releases": 2}
    for number in (1, 2, 3, 4):
        assert sandbox.deploy(sandbox.dist(number)).outcome is Outcome.DONE
    # two to keep, and the way back of the state before the last deploy
    assert versions(sandbox) == ["2", "3", "4"]
    assert sandbox.rollback().outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.3"


def test_failed_deploys_do_not_pile_up_and_take_no_good_release_with_them(sandbox: Sandbox) -> None:
    sandbox.changes = {"keep_releases": 1}
    sandbox.deploy(sandbox.dist(1))
    sandbox.deploy(sandbox.dist(2))
    for number in (3, 4, 5):
        assert sandbox.deploy(sandbox.dist(number, die_at_start="1")).outcome is Outcome.ROLLED_BACK
    assert versions(sandbox) == ["1", "2", "4", "5"]  # of the failed ones the newest that was there, and this
    assert sandbox.version() == "0.5.9+specctl.2"
    assert sandbox.rollback().outcome is Outcome.DONE
    assert sandbox.version() == "0.5.9+specctl.1"


def test_the_host_refuses_to_remove_what_a_current_points_to_whatever_the_plan_says(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    remote = Remote(LocalHost("here"), str(sandbox.root), "r")
    answer = remote.program("tree", op="remove_releases", releases=[sandbox.release(1)])
    assert answer == {"removed": [], "refused": [sandbox.release(1)]}
    assert (sandbox.root / "servers" / "main" / "current" / "COMPLETE").exists()


def prune(sandbox: Sandbox, keep: int) -> HostResult:
    return sandbox.engine.run(sandbox.config, prune_maker(keep), command="prune", what="prune")


def test_packages_that_no_release_uses_leave_the_cache_and_can_be_installed_again(
    sandbox: Sandbox, house: Path
) -> None:
    old = house / "alpha-1.0-py3-none-any.whl"
    new = package(house, "alpha", "2.0", "VALUE = 2\n")
    sandbox.changes = {**sandbox.changes, "keep_releases": 1}
    sandbox.deploy(locked_dist(sandbox, 1, old))
    for number in (2, 3):
        assert sandbox.deploy(locked_dist(sandbox, number, new)).outcome is Outcome.DONE
    assert prune(sandbox, 1).outcome in (Outcome.DONE, Outcome.UNCHANGED)
    assert versions(sandbox) == ["2", "3"]
    assert not (sandbox.root / "wheels" / old.name).exists()
    assert (sandbox.root / "wheels" / new.name).exists()
    cached = list((sandbox.root / "cache" / "uv").rglob("alpha.py"))
    assert [p.read_text() for p in cached] == ["VALUE = 2\n"]
    assert all(p.stat().st_nlink > 1 for p in cached)
    # the cache still names what was swept out of it: an install must get over that
    result = sandbox.deploy(locked_dist(sandbox, 4, old))
    assert result.error is None, result.error.as_dict()
    assert run_python(sandbox, 4, "import alpha; print(alpha.VALUE)") == "1"


def test_a_prune_with_nothing_to_remove_takes_no_lock_and_does_nothing(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    before = (sandbox.root / "history.jsonl").read_bytes()
    assert prune(sandbox, 3).outcome is Outcome.UNCHANGED
    assert (sandbox.root / "history.jsonl").read_bytes() == before


def test_a_removal_that_was_interrupted_is_finished_by_the_next_one(sandbox: Sandbox) -> None:
    sandbox.deploy(sandbox.dist(1))
    half = sandbox.root / "releases" / ".removing-0.5.9+specctl.9-00000000"
    half.mkdir()
    (half / "file").write_text("x")
    Remote(LocalHost("here"), str(sandbox.root), "r").program("tree", op="remove_releases", releases=[])
    assert not half.exists()
