"""Rules about the host itself: pure functions from configuration and facts to checks."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from specctl.config.model import EnvironmentKind, HostConfig, ServerConfig, Supervisor, Target
from specctl.doctor.model import Check, fail, ok, present, size, warn
from specctl.doctor.needs import GIB, OLDEST_OF_CUDA_12, TEMPORARY_BYTES, Needs, version
from specctl.host.facts import Facts, FolderFact
from specctl.service.unit import unit_for

_SKEW_WARN_S = 5.0  # log times of host and operator no longer compare by eye
_SKEW_FAIL_S = 300.0  # certificates and package indexes start to fail
_FEW_INODES = 200_000  # an environment has about a hundred thousand files
_BUSY_GPU_MIB = 1024


def check_machine(config: HostConfig, facts: Facts, needs: Needs) -> list[Check]:
    """Everything about the host that does not depend on one server."""
    return present(
        [
            _system(facts),
            _clock(facts),
            *_folders(config, facts, needs),
            _python(config, facts, needs),
            _glibc(facts, needs),
            _supervisor(config, facts),
            *_gpus(config, facts, needs),
            _build_tools(config, facts),
            _lock(facts),
            *_links(facts),
            _unknown(facts),
        ]
    )


def _system(facts: Facts) -> Check:
    seen = f"{facts.os} {facts.os_version}, kernel {facts.kernel}, {facts.machine}, {facts.cpus} CPUs"
    if facts.memory_bytes:
        seen += f", {size(facts.memory_bytes)} memory"
    if facts.machine not in ("x86_64", "aarch64", None):
        return fail("system", seen, "SGLang has wheels for x86_64 and aarch64 only")
    return ok("system", seen)


def _clock(facts: Facts) -> Check:
    off = abs(facts.skew_s) - facts.skew_error_s  # what cannot be the network's doing
    seen = f"{facts.skew_s:+.1f} s against this machine (known to {facts.skew_error_s:.1f} s)"
    hint = "set its clock by NTP: timedatectl set-ntp true"
    if off > _SKEW_FAIL_S:
        return fail("clock", seen, hint)
    return warn("clock", seen, hint) if off > _SKEW_WARN_S else ok("clock", seen)


# -- disk


def _folders(config: HostConfig, facts: Facts, needs: Needs) -> list[Check | None]:
    return [_folder(config, facts, needs, folder) for folder in facts.folders]


def _folder(config: HostConfig, facts: Facts, needs: Needs, folder: FolderFact) -> Check | None:
    name = f"disk {folder.purpose}"
    seen = f"{folder.path}: {size(folder.free_bytes)} free on {folder.mount}"
    needed = _needed(config, needs, folder)
    if needed is None:
        return None
    root = config.sudo or facts.uid == 0
    if folder.read_only:
        return fail(name, f"{seen}, mounted read-only", "remount it, or look at dmesg for a disk error")
    if not folder.writable and not root:
        return fail(
            name, f"{seen}, {facts.user} may not write there", "give the folder to the user, or sudo: true"
        )
    if folder.purpose == "root" and folder.noexec:
        return fail(name, f"{seen}, mounted noexec", "choose a root on a file system that runs programs")
    if folder.free_bytes < needed:
        return fail(name, f"{seen}, {size(needed)} are needed", _room(folder.purpose))
    many = folder.purpose == "root" and needed > GIB  # a whole environment
    if many and folder.free_inodes is not None and folder.free_inodes < _FEW_INODES:
        return fail(name, f"{seen}, only {folder.free_inodes} files more", _room(folder.purpose))
    return ok(name, seen)


def _needed(config: HostConfig, needs: Needs, folder: FolderFact) -> int | None:
    """Bytes that a first deploy and what it starts take there; None for folders that it does not use."""
    adopted = config.environment is EnvironmentKind.ADOPTED
    if folder.purpose == "root":
        # uv's cache and what a build unpacks are below the root too, so that a venv is hard links
        return 100 << 20 if adopted else needs.disk_bytes
    return TEMPORARY_BYTES if folder.purpose == "temporary" else None


def _room(purpose: str) -> str:
    return {
        "root": "make room (specctl prune), or choose another root",
        "temporary": "make room: a running server keeps sockets and compiled kernels there (or env: TMPDIR)",
    }[purpose]


# -- Python and libraries


def interpreter(config: HostConfig) -> str:
    """What a venv would be made from, as the inventory names it."""
    adopted = config.environment is EnvironmentKind.ADOPTED and config.adopt
    return f"{str(config.adopt).rstrip('/')}/bin/python" if adopted else config.python


def _python(config: HostConfig, facts: Facts, needs: Needs) -> Check:
    name = interpreter(config)
    python, key = facts.python(name), "python:" if name == config.python else "adopt:"
    if python is None or python.version is None:
        return fail("python", f"{name} is not there", f"install Python {needs.python}, or set {key}")
    seen = f"{python.path} is {python.version}"
    if not SpecifierSet(needs.python).contains(python.version):
        return fail("python", f"{seen}; the base needs {needs.python}", f"name another interpreter: {key}")
    if not python.venv:
        return warn(
            "python", f"{seen}, without the venv module", "fine as long as uv is pushed; else install it"
        )
    return ok("python", seen)


def _glibc(facts: Facts, needs: Needs) -> Check:
    needed = ".".join(map(str, needs.glibc))
    if facts.glibc is None:
        return fail("glibc", "no GNU C library", f"the wheels of the base need glibc {needed} or newer")
    if version(facts.glibc) < needs.glibc:
        return fail(
            "glibc", f"{facts.glibc}; the base needs {needed}", "a newer distribution, or adopt a container's"
        )
    return ok("glibc", facts.glibc)


# -- services


def _supervisor(config: HostConfig, facts: Facts) -> Check:
    if config.supervisor is Supervisor.SUPERVISOR:
        seen = f"supervisord at {facts.supervisord}" if facts.supervisord else "no supervisord on the host"
        return ok("supervisor", f"{seen}; specctl brings its own where it is missing")
    if facts.systemd is None:
        return fail("supervisor", "no systemd", "set supervisor: supervisor")
    seen = f"systemd {facts.systemd}, {facts.system_state}"
    if config.supervisor is Supervisor.SYSTEMD:
        if facts.system_state in ("offline", "unknown", "", None):
            return fail(
                "supervisor", seen, "systemd does not run here (a container?): set supervisor: supervisor"
            )
        if facts.system_state == "degraded":
            return warn("supervisor", seen, "some unit has failed: systemctl --failed")
        return ok("supervisor", seen)
    seen += (
        f"; manager of {facts.user}: {facts.user_manager or 'none'}, linger {'on' if facts.linger else 'off'}"
    )
    if facts.user_manager in (None, "offline", "unknown"):
        return fail("supervisor", seen, f"sudo loginctl enable-linger {facts.user}, then log in again")
    if not facts.linger:
        return fail(
            "supervisor",
            seen,
            f"its servers end with the last login: sudo loginctl enable-linger {facts.user}",
        )
    return ok("supervisor", seen)


# -- GPUs


def _gpus(config: HostConfig, facts: Facts, needs: Needs) -> list[Check]:
    if config.target is Target.CPU:
        return [ok("gpu", "not needed: target is cpu")]
    if not facts.gpus:
        seen = "no nvidia-smi" if facts.gpus is None else "nvidia-smi lists no GPU"
        return [fail("gpu", seen, "install the driver, or set target: cpu for a rehearsal")]
    first = facts.gpus[0]
    checks = [ok("gpu", f"{len(facts.gpus)} x {first.name}, compute {first.compute or 'unknown'}")]
    driver, needed = version(first.driver), needs.driver
    if needed is None or needs.cuda is None:
        return [*checks, ok("driver", first.driver)]
    toolkit, wanted = f"CUDA {needs.cuda[0]}.{needs.cuda[1]}", ".".join(map(str, needed))
    if driver >= needed:
        checks.append(ok("driver", f"{first.driver}, new enough for {toolkit}"))
    elif needs.cuda[0] == 12 and driver >= OLDEST_OF_CUDA_12:
        seen = f"{first.driver}; {toolkit} asks for {wanted} to compile kernels on the host"
        checks.append(warn("driver", seen, f"update the driver to {wanted} or newer"))
    else:
        checks.append(fail("driver", f"{first.driver}; {toolkit} needs {wanted}", "update the driver"))
    return checks


def busy_gpus(facts: Facts, wanted: tuple[int, ...]) -> list[str]:
    """GPUs of a server whose memory somebody uses, for people."""
    return [
        f"GPU {gpu.index} has {gpu.used_mib} MiB in use"
        for gpu in facts.gpus or ()
        if (not wanted or gpu.index in wanted) and (gpu.used_mib or 0) > _BUSY_GPU_MIB
    ]


def _build_tools(config: HostConfig, facts: Facts) -> Check | None:
    """Kernels that are not shipped are compiled at the first start, by `ninja` on the server's PATH."""
    if config.target is Target.CPU or all(_brings_ninja(config, server) for server in config.servers):
        return None
    if facts.tools.get("ninja"):
        return ok("ninja", str(facts.tools["ninja"]))
    return warn(
        "ninja",
        "not on the PATH; a kernel that has to be compiled then waits until the start times out",
        "install ninja-build on the host",
    )


def _brings_ninja(config: HostConfig, server: ServerConfig) -> bool:
    """Whether the server finds the ninja that its own locked environment holds."""
    path = unit_for(config, server).env.get("PATH", "")
    locked = config.environment is EnvironmentKind.LOCKED
    return locked and any(part.endswith("/venv/bin") for part in path.split(":"))


# -- what earlier deploys left


def _lock(facts: Facts) -> Check | None:
    if facts.lock is None:
        return None
    return warn("lock", f"held: {facts.lock}", "another specctl works here; if it is gone: specctl unlock")


def _links(facts: Facts) -> list[Check]:
    return [
        fail("current", f"{server.name} names {server.current}, which is not there", "deploy again")
        for server in facts.servers
        if server.current is not None and not server.resolves
    ]


def _unknown(facts: Facts) -> Check | None:
    if not facts.problems:
        return None
    return warn("facts", "; ".join(facts.problems), "what could not be read there was not judged")
