from .absent import absent

__getattr__ = absent("torchvision.io")
