"""Reading a secret when it is needed, and carrying it so that nothing shows it by accident."""

from __future__ import annotations

import hmac
import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from specctl.config.model import SecretRef, ServerConfig
from specctl.errors import UsageError

_LONGEST = 16 * 1024  # bytes of a secret
_COMMAND_SECONDS = 60.0


class Secret:
    """A secret text. str, repr, format and JSON's default show `***`; only `reveal()` gives it."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.__value.encode(), other.reveal().encode())

    __hash__ = None  # type: ignore[assignment]  # a hash would tell equal secrets apart from others

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


class SecretError(UsageError):
    """A secret cannot be read. Neither the value nor anything that a command printed is in it."""

    code = "secret"


@dataclass(frozen=True)
class Printed:
    """What a local command did."""

    exit_code: int
    stdout: bytes


def run_here(argv: Sequence[str]) -> Printed:
    """Run a command on this machine; its stderr and stdin are the terminal's, so that it may ask for a PIN.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it did not end within 60 s.
    """
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=False)
    return Printed(done.returncode, done.stdout)


def resolve_secret(
    ref: SecretRef, *, environ: Mapping[str, str], run: Callable[[Sequence[str]], Printed] = run_here
) -> Secret:
    """The secret that a reference means, without its last line break.

    Raises:
        SecretError: it is missing, empty, longer than 16 KiB, not UTF-8 or more than one line.
    """
    if ref.kind == "env":
        value = environ.get(ref.source)
        if value is None:
            raise _failure(
                f"the variable {ref.source} is not set", ref, "export it before you run specctl"
            ) from None
        return _checked(value.encode("utf-8", "surrogateescape"), ref)
    if ref.kind == "file":
        try:
            with Path(ref.source).open("rb") as stream:
                return _checked(stream.read(_LONGEST + 1), ref)
        except OSError as exc:
            raise _failure(
                f"cannot read {ref.source}: {exc.strerror}", ref, "check the path and its rights"
            ) from None
    if ref.kind == "command":
        return _checked(_output(ref, run), ref)
    raise _failure(f"a secret cannot come from {ref.kind!r}", ref, "use env, file or command") from None


def _output(ref: SecretRef, run: Callable[[Sequence[str]], Printed]) -> bytes:
    try:
        argv = shlex.split(ref.source)
    except ValueError:
        argv = []
    if not argv:
        raise _failure("the command is empty or has an open quote", ref, "mend the command line") from None
    hint = "run it yourself and look"
    try:
        printed = run(argv)
    except subprocess.TimeoutExpired:
        raise _failure(f"{argv[0]} did not end within {_COMMAND_SECONDS:g} s", ref, hint) from None
    except OSError as exc:
        raise _failure(f"{argv[0]} cannot be started: {exc.strerror}", ref, hint) from None
    if printed.exit_code != 0:
        raise _failure(f"{argv[0]} ended with exit code {printed.exit_code}", ref, hint) from None
    return printed.stdout


def _checked(data: bytes, ref: SecretRef) -> Secret:
    if len(data) > _LONGEST:
        raise _failure(f"the secret has more than {_LONGEST:,} bytes", ref, "is it the right file?") from None
    try:
        text = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise _failure("the secret is not UTF-8 text", ref, "store it as text, e.g. base64") from None
    if not text:
        raise _failure(
            "the secret is empty", ref, "set it, or take the reference out of the inventory"
        ) from None
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise _failure(
            "the secret has more than one line, or control characters", ref, "store it as one line"
        ) from None
    return Secret(text)


def _failure(message: str, ref: SecretRef, hint: str) -> SecretError:
    # A command line may itself hold a token, so only its first word is told.
    source = ref.source.split(" ")[0] + " ..." if ref.kind == "command" else ref.source
    return SecretError(message, context={"secret": f"{ref.kind}: {source}"}, hint=hint)


def secret_file_bytes(server: ServerConfig, values: Mapping[str, Secret]) -> bytes:
    """The content of `server.secret_file`: SGLang reads it as further arguments (--config FILE).

    `values` has one entry for each of `server.secret_args`. Write it with mode 0600, owned by the user that
    runs the server. The text is JSON, which is YAML, so that no value can be taken for anything but text.

    Raises:
        SecretError: a value is missing, or begins with a dash: argparse would take it for a flag.
    """
    content: dict[str, str] = {}
    for argument, ref in server.secret_args.items():
        value = values.get(argument)
        if value is None:
            raise _failure(
                f"{argument} has no value", ref, "resolve every secret of the server first"
            ) from None
        if value.reveal().startswith("-"):
            raise _failure(
                f"the value of {argument} begins with a dash, which SGLang cannot read",
                ref,
                "choose another key",
            )
        content[argument.removeprefix("--")] = value.reveal()
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()
