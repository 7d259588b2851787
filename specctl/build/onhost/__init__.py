"""Programs that run in the Python of a server: standard library and sglang only."""
