"""Runs the real SGLang, both EAGLE workers, on a machine without a GPU. See README.md in this folder."""
