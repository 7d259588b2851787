"""Empty modules in place of packages that the measured paths import but never call.

Travels as sitecustomize.py of the packed site. The finder is asked last, so an installed package always wins.
"""

import importlib.abc
import importlib.machinery
import sys
import types

ABSENT = frozenset(
    [
        "airportsdata",
        "decord",
        "decord2",
        "deep_gemm",
        "diskcache",
        "lark",
        "modelscope",
        "nest_asyncio",
        "outlines_core",
        "pycountry",
        "smg_grpc_proto",
        "smg_grpc_servicer",
        "soundfile",
        "tilelang",
    ]
)


class Anything:
    """Takes part in an import or a class statement; holds nothing."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return Anything()

    def __getattr__(self, name):
        return Anything()


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the names in ABSENT, and every module below them."""

    def find_spec(self, name, _path=None, _target=None):
        if name.partition(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = absent_attribute
        return module

    def exec_module(self, module):
        pass


def absent_attribute(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Anything,), {})


sys.meta_path.append(AbsentFinder())
