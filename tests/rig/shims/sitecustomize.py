"""Loaded by every Python process of the rig (this folder is first on PYTHONPATH), the server's children too.

Sets what must be in the environment before the first import and installs the shims. Nothing inside the
sglang package is edited: each shim is applied right after the named module has been imported.
"""

import os

from rig_shims import cuda_only, importhook, speed

_ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",  # sglang's is_cpu(); otherwise rotary embeddings want vllm, for example
    "TRITON_INTERPRET": "1",  # @triton.jit functions run on CPU tensors
    "TORCHDYNAMO_DISABLE": "1",  # @torch.compile helpers run as they are written, no C++ compiler needed
    "OMP_NUM_THREADS": "1",  # the tensors are tiny: threads only cost time
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
for _name, _value in _ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

cuda_only.register(importhook.after_import)
speed.register(importhook.after_import)
importhook.install()
for _path in filter(None, os.environ.get("RIG_HOOKS", "").split(os.pathsep)):
    importhook.register_file(_path)
