"""Programs that run on the host with its own Python (3.8 or newer), standard library only.

Each file defines `main(params) -> JSON value`; `specctl.release.remote` sends it, with `common` in front.
They are idempotent: a second run finds what the first one did, so a lost answer is no harm.
"""
