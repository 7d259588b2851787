"""What a host remembers about a server."""

from __future__ import annotations

import pytest

from specctl.service.protocol import Cursor
from specctl.service.state import ServerState, state_path

STATE = ServerState(
    "main", "r1", "0.5.9+specctl.1", "specctl-main.service", cursor="journal:s=1", invocation="a"
)


def test_a_state_is_read_back_as_it_was_written() -> None:
    assert ServerState.from_json(STATE.to_json()) == STATE


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b'{"server": 1, "release": "r", "distribution": "d", "unit": "u"}',
     STATE.to_json().replace(b'"schema": 1', b'"schema": 2'), b"\xff"],
)  # fmt: skip
def test_a_damaged_state_counts_as_none(data: bytes) -> None:
    assert ServerState.from_json(data) is None


def test_a_key_of_a_later_version_is_left_out() -> None:
    assert ServerState.from_json(STATE.to_json().replace(b"{", b'{"later": 1,', 1)) == STATE


def test_the_path_is_below_the_servers_folder() -> None:
    assert state_path("/opt/specctl/", "main") == "/opt/specctl/servers/main/state.json"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "from its beginning"),
        ("journal:", "from its beginning"),
        ("file:", "from its beginning"),
        ("file:64:12:4096", "after byte 4096"),
        ("journal:s=a;i=7d;b=1", "after entry 7d"),
        ("journal:odd", "after the cursor"),
    ],
)
def test_a_place_in_a_log_is_named_in_a_few_words(value: str, words: str) -> None:
    assert Cursor(value).words == words
