"""Measures a specctl release on one GPU. Start at run.py; what runs on the GPU machine needs aiohttp and nothing else."""
