"""specctl: build, deploy and prove an SGLang that switches speculative decoding off under load."""

__version__ = "0.1.0"
