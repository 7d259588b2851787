"""Import what a server cannot do without, in the environment that would run it.

params: none
answer: {"python", "prefix", "packages": {name: version or null}, "imports": {module: null or error},
         "cuda": {"build", "available", "count"} or null, "seconds"}
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time
from typing import Any

PACKAGES = (
    "sglang",
    "torch",
    "sgl-kernel",
    "sglang-kernel",
    "flashinfer-python",
    "flashinfer-cubin",
    "transformers",
)
MODULES = ("torch", "sgl_kernel", "flashinfer", "sglang")


def versions() -> "dict[str, Any]":
    found: dict[str, Any] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def imports() -> "dict[str, Any]":
    outcome: dict[str, Any] = {}
    for name in MODULES:
        try:
            importlib.import_module(name)
            outcome[name] = None
        except BaseException as error:
            text = str(error).strip().splitlines() or [""]
            outcome[name] = "%s: %s" % (type(error).__name__, text[-1][:300])
    return outcome


def cuda() -> "dict[str, Any] | None":
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return {
        "build": torch.version.cuda,
        "available": bool(torch.cuda.is_available()),
        "count": int(torch.cuda.device_count()),
    }


began = time.time()
answer = {"python": sys.executable, "prefix": os.path.realpath(sys.prefix), "packages": versions()}  # type: dict[str, Any]
answer["imports"] = imports()
try:
    answer["cuda"] = cuda()
except Exception as error:
    answer["cuda"] = None
    answer["imports"]["torch"] = "%s: %s" % (type(error).__name__, error)
answer["seconds"] = round(time.time() - began, 1)
print(json.dumps(answer))
