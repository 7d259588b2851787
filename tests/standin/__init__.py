"""A stand-in for an SGLang server: the same endpoints and log lines, no model, standard library only.

It proves nothing about SGLang. It exists so that deploy, rollback and verify can be tested against a
server that misbehaves on demand (`knobs.py`), on hosts that have neither a GPU nor SGLang.
"""
