"""Who could take the host or its servers over is told before a deploy, not found out after."""

from __future__ import annotations

from dataclasses import replace

import pytest
from config.builders import make_host, make_server

from specctl.config.model import HostConfig, SecretRef, SshConfig, Supervisor
from specctl.doctor.model import Check, Verdict
from specctl.doctor.trust import check_exposure, check_trust
from specctl.host.facts import PlaceFact

from .builders import folder, make_facts

USER = {"user": "ann", "uid": 1000, "sudo": "works"}
PLACES = (
    PlaceFact("/", "root", 0, 0o755),
    PlaceFact("/opt", "root", 0, 0o755),
    PlaceFact("/opt/specctl", "ann", 1000, 0o755),
)


def found(name: str, config: HostConfig, missing: tuple[str, ...] = (), **facts: object) -> Check:
    checks = check_trust(config, make_facts(**{**USER, "places": PLACES, **facts}), missing)
    return next(check for check in checks if check.name == name)


def place(path: str, **changes: object) -> tuple[PlaceFact, ...]:
    return tuple(replace(p, **changes) if p.path == path else p for p in PLACES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sudo", "configured", "verdict"),
    [
        ("works", True, Verdict.OK),
        ("refused", True, Verdict.FAIL),
        ("missing", True, Verdict.FAIL),
        ("refused", False, Verdict.OK),
    ],
)
def test_sudo_matters_only_where_it_is_configured(sudo: str, configured: bool, verdict: Verdict) -> None:
    check = found("sudo", make_host(sudo=configured), sudo=sudo)
    assert check.verdict is verdict
    assert ("install it" in str(check.hint)) is (sudo == "missing")


def test_what_root_has_still_to_set_up_is_named() -> None:
    config = make_host(sudo_units=True, ssh=SshConfig("h", user="ann"))
    assert found("sudo", config, sudo="refused").verdict is Verdict.OK
    check = found("sudo", config, ("the unit is not there",))
    assert (check.verdict, check.seen) == (Verdict.FAIL, "the unit is not there")
    assert f"specctl sudoers --setup --hosts {config.name}" in str(check.hint)


@pytest.mark.parametrize(
    ("places", "verdict", "seen"),
    [
        (PLACES, Verdict.OK, "nobody else"),
        (place("/opt/specctl", mode=0o777), Verdict.FAIL, "/opt/specctl is writable by everyone (mode 0777)"),
        (place("/opt/specctl", uid=7, owner="eve"), Verdict.FAIL, "/opt/specctl belongs to eve"),
        (place("/opt/specctl", uid=0, owner="root"), Verdict.OK, "nobody else"),
        (place("/opt", mode=0o777), Verdict.WARN, "/opt is writable by everyone"),
        (place("/opt", mode=0o1777), Verdict.OK, "nobody else"),
        (place("/opt", mode=0o775, shared=True), Verdict.WARN, "/opt is writable by its group"),
        (place("/opt", mode=0o775), Verdict.OK, "nobody else"),
        (place("/opt", uid=7, owner="eve"), Verdict.WARN, "/opt belongs to eve"),
    ],
)
def test_whoever_else_could_write_to_the_root_is_named(
    places: tuple[PlaceFact, ...], verdict: Verdict, seen: str
) -> None:
    check = found("root-owner", make_host(), places=places)
    assert check.verdict is verdict
    assert seen in check.seen


def test_a_root_that_is_not_there_yet_is_judged_by_the_folders_above() -> None:
    folders = (folder("root", "/opt/specctl", exists=False),)
    check = found("root-owner", make_host(), places=place("/opt", mode=0o777)[:2], folders=folders)
    assert check.verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("config", "verdict", "seen"),
    [
        (make_host(ssh=SshConfig("h", user="ann"), sudo=True), Verdict.WARN, "ann, whom sudo makes root"),
        (make_host(ssh=SshConfig("h", user="ann"), sudo_units=True), Verdict.OK, "run as ann"),
        (make_host(ssh=SshConfig("h"), sudo=True), Verdict.WARN, "run as root"),
        (make_host(ssh=SshConfig("h", user="root")), Verdict.WARN, "run as root"),
    ],
)
def test_servers_that_would_run_as_root_are_told(config: HostConfig, verdict: Verdict, seen: str) -> None:
    check = found("account", config)
    assert check.verdict is verdict
    assert seen in check.seen


def test_no_account_is_judged_where_the_supervisor_has_one_user() -> None:
    config = make_host(supervisor=Supervisor.SYSTEMD_USER)
    assert "account" not in {check.name for check in check_trust(config, make_facts(**USER), ())}


ADMIN = {"secret_args": {"--admin-api-key": SecretRef("env", "K")}, "secret_file": "/f"}
KEY = {"secret_args": {"--api-key": SecretRef("env", "K")}, "secret_file": "/f"}


@pytest.mark.parametrize(
    ("bind", "more", "verdict"),
    [
        ("127.0.0.1", {}, Verdict.OK),
        ("::1", {}, Verdict.OK),
        ("0.0.0.0", {}, Verdict.WARN),
        ("::", {}, Verdict.WARN),
        ("10.0.0.4", {}, Verdict.WARN),
        ("0.0.0.0", KEY, Verdict.OK),
        (
            "::",
            {"secret_args": {"--admin-api-key": SecretRef("env", "K")}, "secret_file": "/f"},
            Verdict.WARN,
        ),
    ],
)
def test_a_server_that_everyone_may_use_is_told(bind: str, more: dict[str, object], verdict: Verdict) -> None:
    checks = {c.name: c for c in check_exposure(make_server(bind=bind, **more))}
    assert checks["exposure"].verdict is verdict


def test_that_sglang_prints_its_key_is_told_where_there_is_one() -> None:
    assert "key-in-log" not in {c.name for c in check_exposure(make_server())}
    check = next(c for c in check_exposure(make_server(**KEY)) if c.name == "key-in-log")
    assert "/server_info" in check.seen
