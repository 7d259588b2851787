"""Names, locks of packages, secrets, errors and results: the small pure parts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from config.builders import make_host, make_server
from hypothesis import given
from hypothesis import strategies as st

from release.facts import DISTRIBUTION
from specctl.build.distribution import Distribution, OverlayRecord
from specctl.config.model import EnvironmentKind, SecretRef, Target
from specctl.config.secrets import Secret
from specctl.errors import SpecctlError, UsageError
from specctl.host.errors import HostKeyRefused, SudoNeedsPassword, Unreachable
from specctl.release.actions.job import hint_for
from specctl.release.engine import failed
from specctl.release.errors import LockHeld, PlanRefused
from specctl.release.identity import lock_file, release_id
from specctl.release.lastrun import LastRun
from specctl.release.layout import Layout
from specctl.release.lockfile import Lock, parse_lock
from specctl.release.makers import check_distribution
from specctl.release.remote import program_source, with_env
from specctl.release.result import HostResult, Outcome
from specctl.release.secret import secret_digest, secret_files
from specctl.release.units import unit_as_dict, unit_from_dict, unit_of
from specctl.release.wheelhouse import Wheelhouse
from specctl.service.errors import NotSetUp

HOST = make_host()


def test_the_same_inputs_give_the_same_release() -> None:
    one = release_id(DISTRIBUTION, HOST, "l" * 64)
    assert one == release_id(DISTRIBUTION, replace(HOST, name="other", keep_releases=7), "l" * 64)
    assert re.fullmatch(r"0\.5\.9\+specctl\.5-[0-9a-f]{8}", one)


@pytest.mark.parametrize(
    "change",
    [
        {"python": "python3.12"},
        {"target": Target.CPU},
        {"environment": EnvironmentKind.ADOPTED, "adopt": "/opt/env"},
    ],
)
def test_whatever_is_in_the_environment_is_in_the_releases_name(change: dict[str, Any]) -> None:
    before = release_id(DISTRIBUTION, HOST, "l" * 64)
    assert release_id(DISTRIBUTION, replace(HOST, **change), "l" * 64) != before
    assert release_id(DISTRIBUTION, HOST, "m" * 64) != before
    assert release_id(replace(DISTRIBUTION, wheel_sha256="9" * 64), HOST, "l" * 64) != before


def test_an_adopted_environment_does_not_depend_on_the_lock_it_does_not_use() -> None:
    host = replace(HOST, environment=EnvironmentKind.ADOPTED, adopt="/opt/env")
    other = replace(host, adopt="/opt/other")
    assert release_id(DISTRIBUTION, host, "l" * 64) == release_id(DISTRIBUTION, host, None)
    assert release_id(DISTRIBUTION, host, None) != release_id(DISTRIBUTION, other, None)


def test_a_distribution_without_the_hosts_lock_is_refused() -> None:
    with pytest.raises(UsageError, match="no lock for target 'cpu'"):
        lock_file(DISTRIBUTION, replace(HOST, target=Target.CPU))


BUILT = replace(DISTRIBUTION, overlays=tuple(OverlayRecord(n, "1" * 64) for n in HOST.overlays))


@pytest.mark.parametrize(
    ("built", "wanted", "code", "said"),
    [
        (BUILT, HOST.overlays, None, ""),
        (BUILT, HOST.overlays[:1], None, ""),  # more than the inventory asks for
        (BUILT, ("dynamic-disabel",), "overlay-missing", "did you mean dynamic-disable?"),
        (replace(BUILT, overlays=()), HOST.overlays, "overlay-missing", "build the distribution with it"),
        (replace(BUILT, base_version="0.5.8"), HOST.overlays, "other-base", "change `base:`"),
    ],
)
def test_a_distribution_without_what_the_inventory_names_is_refused(
    built: Distribution, wanted: tuple[str, ...], code: str | None, said: str
) -> None:
    host = replace(HOST, overlays=wanted)
    if code is None:
        check_distribution(host, built)
        return
    with pytest.raises(PlanRefused) as caught:
        check_distribution(host, built)
    assert caught.value.code == code
    assert said in str(caught.value.hint)


@pytest.mark.parametrize(
    "text", ["..", "../x-00000000", "a/b-00000000", "x", "", "x-0000000g", "-00000000", "x\n-00000000"]
)
def test_what_is_no_release_id_makes_no_path(text: str) -> None:
    with pytest.raises(UsageError):
        Layout("/opt/specctl").release(text)


@pytest.mark.parametrize("text", ["..", "a/b", "", ".x", "a b"])
def test_what_is_no_server_name_makes_no_path(text: str) -> None:
    with pytest.raises(UsageError):
        Layout("/opt/specctl").server(text)


LOCK = """
# a comment
--index-url https://example.net/simple
alpha==1.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via beta
Beta_Two[extra]==2.0 ; sys_platform == 'linux' --hash=sha256:{a}
win==3 ; sys_platform == 'win32' \\
    --hash=sha256:{b}
""".format(a="a" * 64, b="b" * 64)


def test_a_lock_is_read_with_names_versions_hashes_and_markers() -> None:
    pins = parse_lock(LOCK)
    assert [(p.name, p.version, len(p.hashes)) for p in pins] == [
        ("alpha", "1.0", 2),
        ("beta-two", "2.0", 1),
        ("win", "3", 1),
    ]
    assert [p.wanted({}) for p in pins] == [True, True, False]


@pytest.mark.parametrize("line", ["alpha", "alpha>=1", "alpha==1.0", "-e ./here\nalpha==1"])
def test_a_lock_that_pins_no_version_or_hash_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="without a pinned version or hash"):
        parse_lock(line)


def read(ref: SecretRef) -> Secret:
    return Secret(f"value of {ref.source}")


SECRET = make_server(secrets={"TOKEN": SecretRef("env", "A")})


def test_a_digest_tells_changed_secrets_but_not_what_they_are() -> None:
    one = secret_digest(SECRET, "salt", read)
    assert one == secret_digest(SECRET, "salt", read)
    assert one != secret_digest(SECRET, "other salt", read)  # two hosts look different
    assert one != secret_digest(SECRET, "salt", lambda ref: Secret("changed"))
    assert one != secret_digest(replace(SECRET, secrets={"T": SecretRef("env", "A")}), "salt", read)
    assert secret_digest(make_server(), "salt", read) is None
    assert secret_digest(SECRET, None, read) == "new"
    assert "value" not in str(one)


def test_a_secret_that_is_missing_is_told_before_a_hosts_first_deploy_begins() -> None:
    def unreadable(ref: SecretRef) -> Secret:
        raise UsageError(f"cannot read {ref.source}")

    with pytest.raises(UsageError, match="cannot read"):
        secret_digest(SECRET, None, unreadable)


def test_a_server_without_secrets_has_no_secret_files() -> None:
    paths = Layout("/r").server("main")
    assert secret_files(make_server(), paths) == ()
    assert secret_files(SECRET, paths) == ("/r/servers/main/secrets.env",)


def test_a_unit_survives_being_kept() -> None:
    unit = unit_of(HOST, HOST.servers[0])
    kept = json.loads(json.dumps({**unit_as_dict(unit), "text": "for people", "a newer field": 1}))
    assert unit_from_dict(kept) == unit


def test_a_server_over_an_adopted_environment_leaves_no_bytecode_there() -> None:
    host = replace(HOST, environment=EnvironmentKind.ADOPTED, adopt="/opt/env")
    assert unit_of(host, host.servers[0]).env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "PYTHONDONTWRITEBYTECODE" not in unit_of(HOST, HOST.servers[0]).env


@pytest.mark.parametrize(
    "name", ["state", "tree", "lock", "journal", "job", "install", "adopted", "deadman", "ready"]
)
def test_every_program_for_hosts_is_whole_without_specctl(name: str) -> None:
    source = program_source(name)
    assert "specctl.release" not in source
    compile(source, name, "exec")
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(program_source(name, call=""), name, "exec"), names)  # imports what it needs, defines main
    assert callable(names["main"])


def test_variables_travel_in_front_of_a_command() -> None:
    assert with_env(["ls", "-l"], {"B": "2", "A": "1 x"}) == ("env", "A=1 x", "B=2", "ls", "-l")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Unreachable("gone"), Outcome.UNREACHABLE),
        (HostKeyRefused("changed"), Outcome.UNREACHABLE),
        (LockHeld("held"), Outcome.LOCKED),
        (SpecctlError("odd"), Outcome.FAILED),
        (PlanRefused("another base"), Outcome.REFUSED),
        (SudoNeedsPassword("no sudo"), Outcome.REFUSED),
        (NotSetUp("no unit"), Outcome.REFUSED),
        (UsageError("no secret"), Outcome.REFUSED),
    ],
)
def test_what_keeps_a_host_away_decides_its_outcome(error: SpecctlError, outcome: Outcome) -> None:
    result = failed("h1", error)
    assert result.outcome is outcome
    assert result.outcome.failed
    assert result.error is not None
    assert result.error.context["host"] == "h1"


@given(
    runs=st.lists(
        st.dictionaries(st.sampled_from(["h1", "h2", "h3"]), st.sampled_from(list(Outcome)), min_size=1),
        max_size=5,
    )
)
def test_resume_remembers_of_each_host_how_its_last_run_ended(
    runs: list[dict[str, Outcome]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state")
    record = LastRun.of("deploy", Path("hosts.yaml"), {"XDG_STATE_HOME": str(folder)})
    last: dict[str, Outcome] = {}
    for run in runs:
        record.write("t", [HostResult(h, o) for h, o in run.items()])
        last.update(run)
    hosts = [make_host(h) for h in ("h1", "h2", "h3")]
    open_ones = [h for h in ("h1", "h2", "h3") if h in last and last[h].failed]
    if open_ones:
        assert [h.name for h in record.unfinished(hosts)] == open_ones
    else:
        with pytest.raises(UsageError):
            record.unfinished(hosts)


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    record = LastRun(tmp_path / "deploy.json")
    record.path.write_text("{")
    with pytest.raises(UsageError, match="no earlier run"):
        record.unfinished([HOST])


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("No space left on device (os error 28)", "make room"),
        ("Hash mismatch for `six==1.0`", "not what the lock says"),
        ("error: Failed to fetch: x\n  cause: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE (uv)"),
        ("certificate verify failed: self-signed\nERROR: No matching distribution found for six", "PIP_CERT"),
        ("Because there is no version of torch==2.13.0+cpu and you require it", "torch-backend"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "torch-backend"),
        ("ERROR: No matching distribution found for six==1.0", "wheelhouse lacks a file"),
        ("error: Failed to fetch: x\n  cause: dns error", "reaches no package index"),
        ("segmentation fault", "nothing that serves was touched"),
    ],
)
def test_an_install_that_failed_says_what_to_do_about_what_was_said(said: str, hint: str) -> None:
    assert hint in hint_for(said)


def test_a_wheelhouse_without_the_cpu_build_of_torch_says_where_that_is(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    for version, says in (("2.13.0+cpu", True), ("2.13.0", False)):
        pins = parse_lock(f"torch=={version} --hash=sha256:{'0' * 64}")
        with pytest.raises(PlanRefused) as caught:
            Wheelhouse(tmp_path).needed(Lock(path, "", pins), {})
        assert ("--extra-index-url" in str(caught.value.hint)) is says
