"""Telling a secret that was written down in plain text from ordinary text. The text itself is never shown."""

from __future__ import annotations

import re

# Beginnings that services give to the keys they issue, with enough behind them to be one.
_KEY_SHAPES = re.compile(
    r"(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY)"
)
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|(API|ACCESS|PRIVATE|SECRET|AUTH)_KEY)$"
)


def is_secret_name(variable: str) -> bool:
    """Whether a variable of this name holds a secret: HF_TOKEN does, HF_TOKEN_PATH and MAX_TOKENS do not."""
    return _SECRET_NAME.search(variable.upper()) is not None


def looks_secret(text: str) -> bool:
    """Whether a text has the shape of a key that a known service issues."""
    return _KEY_SHAPES.search(text) is not None
