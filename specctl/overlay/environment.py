"""From a virtual environment or an interpreter to the folder above sglang/, editable installs followed."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from specctl.overlay.errors import TreeError
from specctl.overlay.record import PACKAGE, metadata_field

_ASK = "import sys; print('\\n'.join(sys.path))"
_ASK_SECONDS = 30.0


def holds_package(folder: Path) -> bool:
    """True when sglang/ in it is the package, not, say, a checkout of that name."""
    return (folder / PACKAGE / "__init__.py").is_file()


def is_environment(path: Path) -> bool:
    """True for the folder of a virtual environment and for an interpreter."""
    if path.is_dir():
        return (path / "pyvenv.cfg").is_file() or any(site_folders(path))
    return path.is_file() and path.name.startswith("python")


def site_folders(prefix: Path) -> Iterator[Path]:
    """site-packages of an environment, as they lie on disk."""
    for pattern in ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages"):
        yield from sorted(prefix.glob(pattern))


def environment_paths(path: Path) -> list[Path]:
    """Folders from which the environment imports, nearest first; the interpreter is asked only when needed.

    Raises:
        TreeError: the interpreter does not run.
    """
    prefix = path if path.is_dir() else path.parent.parent
    if path.is_dir() or (prefix / "pyvenv.cfg").is_file():
        found = list(site_folders(prefix))
        if any(holds_package(folder) or dist_infos(folder) for folder in found):
            return found
    python = path / "bin" / "python" if path.is_dir() else path
    return ask(python) if python.exists() else list(site_folders(prefix))


def ask(python: Path) -> list[Path]:
    """sys.path of an interpreter, run isolated from the caller's own settings."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _ASK], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as exc:
        tail = (getattr(exc, "stderr", None) or str(exc)).strip().splitlines()[-1:]
        raise TreeError(
            f"{python} does not run as a Python interpreter", context={"cause": "".join(tail)}
        ) from exc
    return [Path(line) for line in done.stdout.splitlines() if line and Path(line).is_dir()]


def dist_infos(folder: Path) -> list[Path]:
    """dist-info folders of sglang itself (not of packages whose names begin alike)."""
    return [
        info
        for info in sorted(folder.glob(f"{PACKAGE}-*.dist-info"))
        if (info / "METADATA").is_file()
        and (metadata_field((info / "METADATA").read_bytes(), "Name") or "").lower() == PACKAGE
    ]


def editable_root(folders: Sequence[Path], info: Path | None) -> Path | None:
    """The folder above the sglang/ of an editable install: import hook, then .pth, then direct_url.json."""
    for folder in folders:
        for hook in sorted(folder.glob(f"__editable___{PACKAGE}_*_finder.py")):
            mapped = _mapping(hook).get(PACKAGE)
            if mapped and holds_package(Path(mapped).parent):
                return Path(mapped).parent
        for pth in sorted(folder.glob("*.pth")):
            for line in pth.read_text(encoding="utf-8", errors="replace").splitlines():
                entry = line.strip()
                if (
                    entry
                    and not entry.startswith(("#", "import ", "import\t"))
                    and holds_package(folder / entry)
                ):
                    return folder / entry
    if info is None or not (info / "direct_url.json").is_file():
        return None
    try:
        direct = json.loads((info / "direct_url.json").read_text(encoding="utf-8"))
        url = urlsplit(direct["url"])
        editable = bool(direct.get("dir_info", {}).get("editable"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if url.scheme != "file" or not editable:
        return None
    project = Path(url2pathname(unquote(url.path)))
    return next((d for d in (project / "python", project / "src", project) if holds_package(d)), None)


def _mapping(hook: Path) -> dict[str, str]:
    """MAPPING of a setuptools import hook, read without running it."""
    try:
        body = ast.parse(hook.read_bytes()).body
    except (SyntaxError, ValueError):
        return {}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if value is not None and any(isinstance(t, ast.Name) and t.id == "MAPPING" for t in targets):
            try:
                return dict(ast.literal_eval(value))
            except (ValueError, TypeError):
                return {}
    return {}
