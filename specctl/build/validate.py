"""Is a built wheel what it should be? Statically always; by importing it where a Python has what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specctl.base.process import Finished, Run, run
from specctl.base.wheel import check_record
from specctl.build.checks import Checks
from specctl.build.errors import Invalid
from specctl.overlay.finding import verdicts
from specctl.overlay.judge import judge
from specctl.overlay.model import Overlay, State
from specctl.overlay.tree import Tree

PROGRAM = Path(__file__).with_name("onhost") / "check_import.py"


@dataclass(frozen=True)
class Validation:
    """What was looked at. `imported_with` is the Python that imported it; None: no import was run.

    Attributes:
        compiled: Python files of overlays that compile.
        modules: of these, how many were imported.
        flags: server arguments that the overlays add, as the real parser has them.
        checks: command lines that were put through SGLang's own checks.
        why_not_imported: set when `imported_with` is None.
    """

    compiled: int
    imported_with: str | None
    modules: int = 0
    flags: tuple[str, ...] = ()
    checks: int = 0
    why_not_imported: str = ""


def validate_static(wheel: Path, overlays: Sequence[Overlay], changed: Mapping[str, bytes]) -> int:
    """RECORD, compilation, and `specctl overlay status`.

    Args:
        changed: the files that overlays edited or added.

    Returns:
        How many files were compiled.

    Raises:
        Invalid, BadWheel: with what is wrong.
    """
    check_record(wheel)
    sources = {path: data for path, data in changed.items() if path.endswith(".py")}
    for path, data in sources.items():
        try:
            compile(data, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as exc:
            raise Invalid(
                f"{path} does not compile: {exc}",
                context={"file": path},
                hint="the overlay that edits it is broken",
            ) from exc
    findings = judge(Tree.open(wheel), overlays)
    bad = [f for f in findings if f.overlay is None or f.state is not State.APPLIED]
    states = verdicts(findings)
    missing = [o.name for o in overlays if states.get(o.name) is not State.APPLIED]
    if bad or missing:
        context = {
            str(n): f"{f.overlay} {f.path}: {f.state.value}, {f.message}" for n, f in enumerate(bad[:10], 1)
        }
        raise Invalid(
            f"the built wheel is not judged as patched by {', '.join(missing) or 'its overlays only'}",
            context=context,
            hint="please report this: build and judge disagree",
        )
    return len(sources)


def find_python(explicit: str | None) -> tuple[str | None, str]:
    """The Python to import with, and why none when there is none."""
    if explicit is not None:
        # a path is meant from here; the import runs in a folder of its own. A bare name is looked up in PATH
        return str(Path(explicit).absolute()) if os.sep in explicit else explicit, ""
    probe = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('torch', 'transformers'))))"
    try:
        found = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return None, f"{sys.executable} cannot be asked: {exc}"
    if found.returncode == 0:
        return sys.executable, ""
    return None, "this Python has no torch; name one that has: --validate-with PYTHON"


def validate_import(
    wheel: Path,
    python: str,
    workspace: Path,
    *,
    changed: Mapping[str, bytes],
    checks: Checks,
    known_flags: frozenset[str],
    environment: Mapping[str, str],
    runner: Run = run,
) -> Validation:
    """Import every overlaid module and parse server arguments with SGLang's own parser.

    Args:
        workspace: a folder for the unpacked wheel.
        known_flags: the base's own server arguments.
        environment: this process's; its PYTHONPATH stays behind the distribution.

    Raises:
        Invalid: something does not import, or the arguments are not taken as the overlays say.
    """
    root = workspace / "tree"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root)
    sources = [path for path in changed if path.endswith(".py")]
    task = {
        "root": str(root),
        "modules": [module_name(path) for path in sources],
        "accepts": [list(args) for args in checks.accepts],
        "refuses": [{"args": list(r.args), "says": r.says} for r in checks.refuses],
    }
    before = environment.get("PYTHONPATH", "")
    try:
        done = runner(
            [python, "-W", "ignore", str(PROGRAM)],
            env={
                "PYTHONPATH": f"{root}:{before}" if before else str(root),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HF_HUB_OFFLINE": "1",
            },
            cwd=workspace,
            stdin=json.dumps(task).encode(),
            timeout_s=600.0,
        )
    except OSError as exc:
        raise Invalid(
            f"{python} cannot be run: {exc.strerror}", hint="name a Python: --validate-with PYTHON"
        ) from exc
    answer = _answer(done, python)
    flags = tuple(sorted(set(answer["flags"]) - known_flags)) if answer["flags"] else ()
    problems = [str(problem) for problem in answer["problems"]]
    problems += [f"SGLang's parser has no {flag}" for flag in checks.flags if flag not in answer["flags"]]
    if problems:
        raise Invalid(
            f"the distribution does not work with {python}: {problems[0]}",
            context={str(n): text for n, text in enumerate(problems[:20], 1)},
            hint="mend the overlay, or validate with a Python that has all of the base's needs",
        )
    return Validation(len(sources), python, len(sources), flags, int(answer["checks"]))


def module_name(path: str) -> str:
    """sglang/srt/a.py -> sglang.srt.a; a package's __init__.py is the package."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _answer(done: Finished, python: str) -> dict[str, Any]:
    lines = done.stdout.strip().splitlines()
    try:
        if done.exit_code:
            raise ValueError
        answer: dict[str, Any] = json.loads(lines[-1])
    except (ValueError, IndexError):
        raise Invalid(
            f"the distribution cannot be imported with {python}",
            context={"output": done.tail or "none"},
            hint="validate with a Python that has all of the base's needs: --validate-with PYTHON",
        ) from None
    return answer
