"""Stub: SGLang's multimodal configurations import torchvision, whose published wheel is a CUDA build that
does not load beside a CPU build of torch. Nothing on the rig uses an image; a call raises.
"""

from . import transforms  # noqa: F401

__version__ = "0.0.0+stub"
