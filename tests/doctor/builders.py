"""Facts of a host on which everything is as it should be; changes replace fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specctl.doctor.needs import Needs
from specctl.host.facts import Facts, FolderFact, GpuFact, ModelFact, PythonFact

GIB = 1 << 30


def folder(purpose: str, path: str, **changes: Any) -> FolderFact:
    """A roomy folder on the root file system."""
    fact = FolderFact(purpose, path, True, "/", False, True, False, 500 * GIB, 10_000_000)
    return replace(fact, **changes)


def gpu(index: int = 0, **changes: Any) -> GpuFact:
    """An H200 that nobody uses."""
    return replace(GpuFact(index, "NVIDIA H200", 143_771, 4, "570.86.15", "9.0"), **changes)


def make_facts(**changes: Any) -> Facts:
    """A host with one H200, as root, with both models of `config.builders`."""
    fields: dict[str, Any] = {
        "host": "gpu-01",
        "user": "root",
        "uid": 0,
        "sudo": "root",
        "skew_s": 0.1,
        "skew_error_s": 0.2,
        "host_python": "3.12.3",
        "os": "ubuntu",
        "os_version": "24.04",
        "kernel": "6.8.0",
        "machine": "x86_64",
        "glibc": "2.39",
        "cpus": 64,
        "memory_bytes": 512 * GIB,
        "boot_id": "b",
        "systemd": 255,
        "system_state": "running",
        "user_manager": "running",
        "linger": True,
        "gpus": (gpu(),),
        "tools": {"ninja": "/usr/bin/ninja"},
        "ports": (22,),
        "pythons": (PythonFact("python3", "/usr/bin/python3", "3.12.3", True, True),),
        "folders": (
            folder("root", "/opt/specctl"),
            folder("temporary", "/tmp"),
        ),
        "models": (
            ModelFact(
                "/models/target", "/models/target/config.json", {"architectures": ["LlamaForCausalLM"]}
            ),
            ModelFact(
                "/models/draft",
                "/models/draft/config.json",
                {"architectures": ["LlamaForCausalLMEagle3"]},
                bytes=2 * GIB,
            ),
        ),
    }
    return Facts(**{**fields, **changes})


def make_needs(**changes: Any) -> Needs:
    """What 0.5.9 needs with CUDA."""
    pins = {"torch": "2.9.1", "sgl-kernel": "0.3.21", "flashinfer-python": "0.6.3"}
    fields: dict[str, Any] = {
        "python": ">=3.10,<3.13",
        "glibc": (2, 28),
        "pins": pins,
        "cuda": (12, 8),
        "disk_bytes": 12 * GIB,
    }
    return Needs(**{**fields, **changes})
