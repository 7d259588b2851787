"""The host lab: throw-away hosts with a real systemd and a real sshd, in namespaces, with faults on demand.

Needs root on Linux with Debian's package tools. Nothing of the machine's own network is touched: every
host has a network namespace, all are joined by a bridge in the controller's namespace, and none has a
route out. Tests (and `python -m tests.lab exec -- COMMAND`) run inside the controller's namespace.
"""
