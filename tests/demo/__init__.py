"""The whole job on one machine, as a story of steps: `python -m tests.demo`."""
