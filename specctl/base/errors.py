"""What can go wrong with a base: who it is, what its bytes are, and how it is fetched."""

from __future__ import annotations

from specctl.errors import SpecctlError, UsageError


class UnknownBase(UsageError):
    """There is no record of that name."""

    code = "unknown-base"


class RecordError(UsageError):
    """A base record cannot be read, or contradicts another one."""

    code = "base-record"


class HashMismatch(SpecctlError):
    """Bytes are not the pinned ones; context has both hashes."""

    code = "hash-mismatch"


class BadWheel(SpecctlError):
    """A file is no whole, consistent SGLang wheel of the expected version."""

    code = "bad-wheel"


class AlreadyPatched(SpecctlError):
    """A wheel or tree that should be a plain base holds a specctl distribution."""

    code = "already-patched"


class FetchFailed(SpecctlError):
    """The wheel or the source could not be had."""

    code = "fetch-failed"


class SourceError(SpecctlError):
    """A git ref or a checkout cannot be used as a base."""

    code = "base-source"


class LockFailed(SpecctlError):
    """uv found no resolution."""

    code = "lock-failed"


class WriteFailed(SpecctlError):
    """The disk refused; what was there before is as it was."""

    code = "write-failed"
