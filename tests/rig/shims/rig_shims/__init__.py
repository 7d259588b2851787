"""What stands in for a GPU when the real SGLang runs on a CPU. See tests/rig/README.md."""
