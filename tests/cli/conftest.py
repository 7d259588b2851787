"""Fixtures of the command line's own tests."""

from __future__ import annotations

import pytest

from cli.calling import Call, caller


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(capsys)
