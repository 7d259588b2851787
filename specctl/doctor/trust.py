"""Rules about who may do what: sudo, the root's owners, the servers' account, who can reach them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from specctl.config import arguments
from specctl.config.model import HostConfig, ServerConfig, Supervisor
from specctl.doctor.model import Check, fail, ok, present, warn
from specctl.host.facts import Facts, PlaceFact
from specctl.service.unit import unit_for

_STICKY = 0o1000  # others may make files there, but not rename or remove ours
_OTHERS, _GROUP = 0o002, 0o020
_LOOPBACK = ("127.", "localhost", "::1")


def check_trust(config: HostConfig, facts: Facts, missing: Sequence[str]) -> list[Check]:
    """`missing`: what root has not set up for `sudo: units`, in words."""
    return present([_sudo(config, facts, missing), _owners(config, facts), _account(config, facts)])


def _sudo(config: HostConfig, facts: Facts, missing: Sequence[str]) -> Check:
    if config.sudo_units:
        if missing:
            hint = f"run there as root what this prints: specctl sudoers --setup --hosts {config.name}"
            return fail("sudo", "; ".join(missing), hint)
        return ok("sudo", f"{facts.user} may start and stop these units, by the rules specctl prints")
    seen = {
        "root": "logged in as root",
        "works": f"{facts.user} may, without a password",
        "refused": f"sudo asks {facts.user} for a password, or refuses",
        "missing": "sudo is not installed",
    }.get(facts.sudo, facts.sudo)
    if facts.sudo in ("root", "works") or not config.sudo:
        return ok("sudo", seen if config.sudo or facts.sudo == "root" else f"not asked for; {seen}")
    how = (
        "install it" if facts.sudo == "missing" else f"specctl sudoers --hosts {config.name} prints the rules"
    )
    hint = f"{how}, or log in as root, or sudo: false"
    return fail("sudo", seen, hint)


def _owners(config: HostConfig, facts: Facts) -> Check | None:
    """Whoever may write to the root, or rename a folder above it, decides what the servers run."""
    if not facts.places:
        return None
    trusted = {0, facts.uid}
    doubts = [text for place in facts.places if (text := _doubt(place, trusted))]
    last, root = facts.places[-1], facts.folder("root")
    if not doubts:
        return ok("root-owner", f"{last.path} is {last.owner}'s, and nobody else may write there or above")
    seen, hint = "; ".join(doubts), f"chown and chmod go-w; a root of specctl's own is best: {config.root}"
    at_root = root is not None and root.exists and _doubt(last, trusted)
    return fail("root-owner", seen, hint) if at_root else warn("root-owner", seen, hint)


def _doubt(place: PlaceFact, trusted: set[int]) -> str:
    open_to_others = place.mode & _OTHERS and not place.mode & _STICKY
    if open_to_others:
        return f"{place.path} is writable by everyone (mode {place.mode:04o})"
    if place.mode & _GROUP and place.shared and not place.mode & _STICKY:
        return f"{place.path} is writable by its group (mode {place.mode:04o})"
    return "" if place.uid in trusted else f"{place.path} belongs to {place.owner}"


def _account(config: HostConfig, facts: Facts) -> Check | None:
    """A fault of a server that runs as root is a fault of the whole host."""
    if config.supervisor is not Supervisor.SYSTEMD or not config.servers:
        return None
    user = unit_for(config, config.servers[0]).user or "root"
    if user == "root":
        return warn(
            "account",
            "the servers run as root",
            "log in as another user with sudo: units" if facts.uid == 0 else "name it: ssh: {user: NAME}",
        )
    if config.sudo:
        seen = f"the servers run as {user}, whom sudo makes root: who takes a server over has the host"
        return warn("account", seen, "sudo: units, with which that user may start and stop servers only")
    return ok("account", f"the servers run as {user}")


def check_exposure(server: ServerConfig) -> list[Check]:
    """Who can reach a server, and what SGLang does with its key."""
    keyed = arguments.API_KEY.name in server.secret_args
    checks = []
    if server.bind.startswith(_LOOPBACK):
        checks.append(ok("exposure", f"listens on {server.bind} only", server=server.name))
    elif keyed:
        checks.append(ok("exposure", f"listens on {server.bind}, asks for a key", server=server.name))
    else:
        seen = f"listens on {server.bind} and asks for no key: who reaches the port can use it and stop it"
        hint = "bind: 127.0.0.1, or secrets: {--api-key: {env: NAME}}"
        checks.append(warn("exposure", seen, hint, server=server.name))
    if server.secret_args:
        seen = "SGLang prints its keys in its log when it starts, and in /server_info to who has the key"
        hint = "keep the server's log as safe as the key; specctl logs leaves keys out"
        checks.append(warn("key-in-log", seen, hint, server=server.name))
    return checks
