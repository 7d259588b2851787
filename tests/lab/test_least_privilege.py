"""Whoever takes the deploy user's key must not get the host with it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from config.builders import make_host, make_server

from specctl.config.model import SshConfig
from specctl.service.sudoers import grant_for

from .deploying import Site, by_host
from .lab import Lab
from .least import as_user, make_user, printed, remove_user, sudo_of
from .test_deploy_fleet import site as site  # the fixture

pytestmark = pytest.mark.lab

USER = "least"


@pytest.fixture
def least(site: Site) -> Iterator[Site]:
    """A site on h1 whose login user may use sudo for nothing yet."""
    machine = site.lab.machine("h1")
    make_user(machine, USER)
    site.host("h1", sudo="units", ssh={"user": USER})
    site.hosts["h1"]["root"] = f"/srv/{site.tag}"
    yield site
    machine.shell(
        f"systemctl disable --now specctl-{site.tag}-a specctl.undo; rm -rf /srv/{site.tag}", check=False
    )
    remove_user(machine, USER)


def checks(site: Site) -> dict[str, dict[str, str]]:
    """Doctor's checks by name. It ends with 1: the lab has no model."""
    return {c["name"]: c for c in site.json("doctor", code=1)["hosts"][0]["checks"]}


def set_up(site: Site) -> None:
    site.lab.machine("h1").run("sh", "-c", printed(site, "--setup"))


def test_every_verb_works_with_nothing_but_the_printed_rules(least: Site) -> None:
    machine = least.lab.machine("h1")
    set_up(least)
    allowed = printed(least)
    machine.write("/tmp/rules", allowed, mode="440")
    assert "parsed OK" in machine.run("visudo", "-cf", "/tmp/rules")
    assert by_host(least.deploy(1))["h1"]["outcome"] == "done"
    assert by_host(least.deploy(2, code=6, die_at_start="1"))["h1"]["outcome"] == "rolled back"
    assert least.version("h1") == "0.5.9+specctl.1"
    pid = machine.run("systemctl", "show", "-P", "MainPID", f"specctl-{least.tag}-a").strip()
    assert machine.run("stat", "-c", "%U", f"/proc/{pid}").strip() == USER
    assert machine.shell(f"find /srv/{least.tag} ! -user {USER}").strip() == ""
    # nothing of a deploy lies where every user may put a link or a file of the same name
    assert machine.shell(f"find /tmp /var/tmp /dev/shm /run/lock -user {USER}").strip() == ""
    least.deploy(3)
    least.json("verify", "--exercise")
    least.json("rollback", "--yes")
    assert least.version("h1") == "0.5.9+specctl.1"
    for verb in ("stop", "start", "restart", "status", "history"):
        least.json(verb)
    least.json("prune", "--keep", "1", "--yes")
    assert "Dynamic speculation disable enabled" in least.call("logs").stdout
    assert checks(least)["sudo"]["verdict"] == "ok"
    used = sudo_of(machine, USER)
    assert used
    assert not [command for command in used if command not in allowed]


FORBIDDEN = (
    "sudo -n id",
    "sudo -n sh -c id",
    "sudo -n systemctl --no-pager --no-ask-password start -- ssh.service",
    "sudo -n systemctl --no-pager --no-ask-password start -- {unit} ssh.service",
    "sudo -n systemctl --no-pager --no-ask-password --root=/tmp start -- {unit}",
    "sudo -n systemctl --no-pager --no-ask-password edit -- {unit}",
    "sudo -n systemctl --no-pager --no-ask-password daemon-reload",
    "cp /etc/hostname /etc/systemd/system/{unit}",
    "echo x >> /etc/sudoers.d/specctl-least",
    "cat /etc/sudoers.d/specctl-least",
)


def test_the_rules_let_the_login_user_become_nobody_else(least: Site) -> None:
    set_up(least)
    unit = f"specctl-{least.tag}-a.service"
    machine = least.lab.machine("h1")
    allowed = f"sudo -n systemctl --no-pager --no-ask-password reset-failed -- {unit}"
    assert as_user(machine, USER, allowed) == (0, "")
    for line in FORBIDDEN:
        code, text = as_user(machine, USER, line.format(unit=unit))
        assert code != 0, line
        assert "password is required" in text or "Permission denied" in text, (line, text)


@pytest.mark.parametrize("rights", [{"sudo_units": True}, {"sudo": True}], ids=["units", "true"])
def test_visudo_takes_the_rules_whatever_the_names(in_lab: Lab, rights: dict[str, bool]) -> None:
    machine = in_lab.machine("h1")
    for user in ("deploy", "a.b-c", "svc$", "ann@example.net", "0day"):
        servers = (make_server("a"), make_server("b_c.d-e"))
        config = make_host("h1", *servers, ssh=SshConfig("h", user=user), **rights)
        machine.write("/tmp/rules", grant_for(config).sudoers or "", mode="440")
        assert "parsed OK" in machine.run("visudo", "-cf", "/tmp/rules"), user


def test_what_root_has_not_set_up_is_told_before_the_server_is_stopped(least: Site) -> None:
    set_up(least)
    least.deploy(1)
    machine = least.lab.machine("h1")
    unit = f"/etc/systemd/system/specctl-{least.tag}-a.service"
    for line, missing in (
        ("rm /etc/sudoers.d/specctl-least", "sudo does not allow"),
        (f"sed -i s/User=least/User=root/ {unit}", f"{unit} is not what this inventory needs"),
        (f"chown least {unit}", f"{unit} is not root's alone"),
        ("gpasswd -d least systemd-journal", "journal cannot be read"),
    ):
        machine.shell(line)
        check = checks(least)["sudo"]
        assert (check["verdict"], missing in check["seen"]) == ("fail", True), check
        assert "sudoers --setup" in check["hint"]
    error = by_host(least.deploy(2, code=2))["h1"]["error"]
    assert error["code"] == "not-set-up"
    assert "sudoers --setup" in error["hint"]
    assert least.version("h1") == "0.5.9+specctl.1"
    set_up(least)
    assert checks(least)["sudo"]["verdict"] == "ok"


@pytest.mark.slow
def test_the_host_undoes_by_itself_with_these_rules_too(least: Site) -> None:
    set_up(least)
    least.hosts["h1"]["servers"][0]["timers"]["start"] = 300
    least.deploy(1)
    process = least.start("deploy", "--dist", str(least.dist(2, start_s="600")), "--yes")
    assert process.stderr is not None
    while f"start {least.tag}-a ok" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 180
    while least.version("h1") != "0.5.9+specctl.1":
        assert time.monotonic() < end
        time.sleep(1)
    assert not [line for line in sudo_of(least.lab.machine("h1"), USER) if line not in printed(least)]


@pytest.mark.slow
def test_with_sudo_true_the_printed_rules_are_enough_and_say_that_they_are_root(
    in_lab: Lab, site: Site
) -> None:
    machine = in_lab.machine("h1")
    make_user(machine, USER)
    try:
        site.host("h1", sudo=True, ssh={"user": USER})
        rules = printed(site)
        assert "THIS IS EQUAL TO ROOT" in rules
        machine.write("/etc/sudoers.d/specctl-least", rules, mode="440")
        assert "parsed OK" in machine.run("visudo", "-cf", "/etc/sudoers.d/specctl-least")
        site.deploy(1)
        site.deploy(2)
        for verb in ("verify", "stop", "start"):
            site.json(verb)
        assert checks(site)["sudo"]["verdict"] == "ok"
        site.json("rollback", "--yes")
        site.json("prune", "--yes")
        assert "Dynamic speculation disable enabled" in site.call("logs").stdout
        assert not [line for line in sudo_of(machine, USER) if line.startswith("REFUSED")]
    finally:
        machine.shell(f"systemctl disable --now specctl-{site.tag}-a", check=False)
        remove_user(machine, USER)
