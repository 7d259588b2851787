"""The verbs: the only package that prints or picks exit codes."""
