"""Kill it anywhere: faults at every action of deploy and rollback, on lab hosts, and what must hold after.

Cases are made from the actions of real plans (`cases.py`), so a new action is covered without being named.
`python -m lab.anywhere --help` runs the matrix or a long soak; `tests/lab/test_anywhere.py` a spread sample.
"""
