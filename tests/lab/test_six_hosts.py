"""One deploy to six real hosts at once, of which one is dead and one has a slow link."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .deploying import Site, by_host
from .lab import Lab
from .test_deploy_fleet import site as site  # the fixture

pytestmark = [pytest.mark.lab, pytest.mark.slow]
ALL = tuple(f"h{n}" for n in range(1, 7))


@pytest.fixture
def six(in_lab: Lab, site: Site) -> Iterator[Site]:
    """h1 to h6; those beyond the lab's own are gone after the test."""
    added = [in_lab.add() for _ in range(len(ALL) - len(in_lab.machines))]
    for name in ALL:
        site.host(name, sudo=True)
    yield site
    in_lab.restore()
    for machine in added:
        site.hosts.pop(machine.name, None)
        in_lab.remove(machine)


def test_six_hosts_of_which_one_is_dead_and_one_slow(in_lab: Lab, six: Site) -> None:
    in_lab.faults("h3").black_hole()
    in_lab.faults("h5").slow("25mbit")
    results = by_host(six.deploy(1, "--max-fail", "1", code=4))
    outcomes = {h: r["outcome"] for h, r in results.items()}
    assert outcomes == {**dict.fromkeys(ALL, "done"), "h3": "unreachable"}
    quick = [results[h]["seconds"] for h in ("h1", "h2", "h4", "h6")]
    print("seconds:", {h: r["seconds"] for h, r in results.items()})
    assert max(quick) < results["h5"]["seconds"]  # nobody waited for the slow one
    assert {six.version(h) for h in ALL if h != "h3"} == {"0.5.9+specctl.1"}
    in_lab.restore()
    assert by_host(six.deploy(1, "--resume"))["h3"]["outcome"] == "done"
    again = by_host(six.deploy(1))
    assert {r["outcome"] for r in again.values()} == {"unchanged"}
