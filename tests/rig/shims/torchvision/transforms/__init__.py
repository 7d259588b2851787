from ..absent import absent
from .functional import InterpolationMode  # noqa: F401

__getattr__ = absent("torchvision.transforms")
