"""Secrets written down in plain text, references that could not work, and servers that anyone may use."""

from __future__ import annotations

from specctl.config import arguments as sglang
from specctl.config.checks.case import ServerCase
from specctl.config.secrecy import is_secret_name, looks_secret

_FLAGS = (sglang.API_KEY, sglang.ADMIN_API_KEY)
_NAMES = tuple(flag.name for flag in _FLAGS)
_LOOPBACK = ("127.", "localhost", "::1")


def check_secrets(case: ServerCase) -> None:
    """No message here ever quotes a value."""
    _check_arguments(case)
    _check_variables(case)
    for name in case.server.secret_args:
        if name not in _NAMES:
            text = f"{name} is no argument that carries a secret"
            hint = f"{' and '.join(_NAMES)} can stand here; everything else goes to args"
            case.refuse("secret-argument", case.at("secrets", name), text, hint)
    bind = case.server.bind
    if not bind.startswith(_LOOPBACK) and sglang.API_KEY.name not in case.server.secret_args:
        text = f"server {case.server.name} listens on {bind} and asks for no key"
        case.warn("open", case.at("bind"), text, "add secrets: {--api-key: {env: NAME}}, or bind 127.0.0.1")


def _check_arguments(case: ServerCase) -> None:
    """Arguments show in `ps` and in plans."""
    keys: set[int] = set()
    for flag in _FLAGS:
        given = case.find(flag)
        if given is not None:
            keys |= {given.index, given.index + 1}
            text = f"{flag.name} is among the arguments, where `ps` shows it"
            hint = f"write secrets: {{{flag.name}: {{env: NAME}}}}; it then travels in a file of mode 0600"
            case.refuse("plain-secret", case.at_argument(given.index), text, hint)
    for index, word in enumerate(case.server.args):
        if looks_secret(word) and index not in keys:
            text = "an argument looks like a key in plain text"
            hint = "keep it out of the file: see secrets: in `specctl hosts --example`"
            case.refuse("plain-secret", case.at_argument(index), text, hint)


def _check_variables(case: ServerCase) -> None:
    for name, value in case.server.env.items():
        where = case.at("env", name)
        if name in case.server.secrets:
            text = f"{name} is also under secrets: {case.at('secrets', name)}"
            case.refuse("argument-twice", where, text, "keep it under secrets")
        elif value and (is_secret_name(name) or looks_secret(value)):
            text = f"{name} looks like a secret in plain text"
            case.refuse("plain-secret", where, text, f"write secrets: {{{name}: {{env: {name}}}}} instead")
