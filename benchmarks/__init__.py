"""Measures a release on one GPU. Start at run.py; the GPU machine's side needs aiohttp and nothing else."""
