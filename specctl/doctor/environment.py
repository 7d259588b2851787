"""The environment that a server runs in: what is in it, whether it imports, and which kind fits a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from specctl.config.model import EnvironmentKind, HostConfig, Target
from specctl.doctor.model import Advice, Check, fail, ok, warn
from specctl.doctor.needs import Needs, version
from specctl.host import programs
from specctl.host.errors import CommandFailed, HostError
from specctl.host.facts import Facts
from specctl.host.protocol import Host

_IMPORT_S = 300.0  # a cold import of torch from a network disk takes minutes
_TRIPLE = ("torch", "sgl-kernel", "flashinfer-python")
_MODULES = {"torch": "torch", "sgl_kernel": "the kernels", "flashinfer": "FlashInfer", "sglang": "SGLang"}
_CUDA_ONLY = ("sgl_kernel", "flashinfer")


@dataclass(frozen=True)
class Environment:
    """One environment on a host, as it answered when its modules were imported."""

    folder: str
    packages: Mapping[str, str | None] = field(default_factory=dict)
    imports: Mapping[str, str | None] = field(default_factory=dict)  # module -> error, None: imports
    cuda: Mapping[str, Any] | None = None
    seconds: float = 0.0
    broken: str | None = None  # why it could not be asked at all

    @property
    def name(self) -> str:
        return f"environment {self.folder}"


def folders(config: HostConfig, facts: Facts) -> list[str]:
    """Environments worth asking: the adopted one, and those of the releases that serve."""
    found = [config.adopt.rstrip("/")] if config.adopt else []
    serving = {server.current for server in facts.servers}
    wanted = [r.python for r in facts.releases if r.id in serving and r.python]
    return [*found, *(python.removesuffix("/bin/python") for python in wanted)]


def inspect(host: Host, folder: str) -> Environment:
    """Import its modules for real. Takes as long as starting torch does.

    Raises:
        Unreachable: the link was lost.
    """
    python = f"{folder}/bin/python"
    try:
        there = host.run(["test", "-x", python], check=False).ok
        if not there:
            return Environment(folder, broken=f"there is no {python}")
        raw = host.script(programs.source("imports"), {}, python=python, timeout_s=_IMPORT_S)
    except CommandFailed as exc:
        return Environment(folder, broken=exc.context.get("output", exc.message).splitlines()[-1])
    except HostError as exc:
        if type(exc).exit_code is not HostError.exit_code:
            raise
        return Environment(folder, broken=exc.message)
    if not isinstance(raw, dict):
        return Environment(folder, broken=f"it answered {raw!r}")
    return Environment(folder, raw["packages"], raw["imports"], raw["cuda"], raw["seconds"])


def judge(config: HostConfig, environment: Environment, needs: Needs) -> list[Check]:
    """14327, 20953, 5100, 10891, 27654: torch, kernels and FlashInfer that were not built for each other."""
    name = environment.name
    if environment.broken:
        return [fail(name, environment.broken, "deploy again, or correct adopt:")]
    hint = "deploy a locked environment: its packages were resolved together"
    checks = []
    cpu = config.target is Target.CPU
    for module, error in environment.imports.items():
        if error and not (cpu and module in _CUDA_ONLY):
            checks.append(fail(name, f"{_MODULES.get(module, module)} does not import: {error}", hint))
    for package in _TRIPLE:
        seen, wanted = environment.packages.get(package), needs.pins.get(package)
        if wanted and not cpu and seen != wanted and (seen or "").split("+")[0] != wanted:
            checks.append(
                warn(name, f"{package} is {seen or 'missing'}, {config.base} was built with {wanted}", hint)
            )
    if environment.packages.get("sgl-kernel") and environment.packages.get("sglang-kernel"):
        checks.append(fail(name, "sgl-kernel and sglang-kernel are both installed", "uninstall one of them"))
    if not cpu and environment.cuda is not None and not environment.cuda.get("available"):
        checks.append(
            fail(name, f"torch {environment.packages.get('torch')} sees no GPU", "driver, or a CPU build?")
        )
    if not checks:
        parts = [
            f"{p} {environment.packages[p]}" for p in ("sglang", *_TRIPLE) if environment.packages.get(p)
        ]
        checks.append(ok(name, f"{', '.join(parts)} import in {environment.seconds:g} s"))
    return checks


def advise(config: HostConfig, facts: Facts, needs: Needs, environments: list[Environment]) -> Advice:
    """Which kind of environment fits, from what was seen."""
    adoptable = next((e for e in environments if config.adopt and e.folder == config.adopt.rstrip("/")), None)
    against = _against_locked(config, facts, needs)
    usable, why = _usable(config, adoptable)
    kind = EnvironmentKind.LOCKED
    if usable and (against or config.environment is EnvironmentKind.ADOPTED):
        kind = EnvironmentKind.ADOPTED
    reasons = [f"locked would fail: {reason}" for reason in against]
    if not against:
        reasons.append("locked would do: Python, glibc and disk are enough for all that the lock names")
    if config.adopt:
        reasons.append(f"adopted {'would do' if usable else 'would fail'}: {why}")
    return Advice(kind, config.environment, tuple(reasons))


def check_advice(advice: Advice) -> Check:
    """The advice as a check: a warning where the inventory says otherwise."""
    seen = f"{advice.kind.value}; {'; '.join(advice.reasons)}"
    if advice.kind is advice.configured:
        return ok("environment kind", seen)
    return warn(
        "environment kind",
        f"configured is {advice.configured.value}, what fits is {seen}",
        f"environment: {advice.kind.value}",
    )


def _against_locked(config: HostConfig, facts: Facts, needs: Needs) -> list[str]:
    against = []
    python = facts.python(config.python)
    if python is None or python.version is None:
        against.append(f"{config.python} is not there")
    elif not SpecifierSet(needs.python).contains(python.version):
        against.append(f"Python {python.version} is not {needs.python}")
    if facts.glibc is None or version(facts.glibc) < needs.glibc:
        against.append(f"glibc {facts.glibc} is older than {'.'.join(map(str, needs.glibc))}")
    root = facts.folder("root")
    if root is not None and root.free_bytes < needs.disk_bytes:
        against.append(f"too little room on {root.mount}")
    return against


def _usable(config: HostConfig, environment: Environment | None) -> tuple[bool, str]:
    if environment is None:
        return False, "no environment is named (adopt:)"
    if environment.broken:
        return False, environment.broken
    failed = [
        m
        for m, e in environment.imports.items()
        if e and not (config.target is Target.CPU and m in _CUDA_ONLY)
    ]
    if failed:
        return False, f"{', '.join(failed)} do not import there"
    seen = (environment.packages.get("sglang") or "").split("+")[0]
    if seen != config.base:
        return False, f"it holds SGLang {seen or 'not at all'}, the base is {config.base}"
    return True, f"{environment.folder} holds SGLang {seen}, and it imports with what it needs"
