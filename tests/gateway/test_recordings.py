"""Recorded conversations of `postgres_fdw` of each Postgres major, gone through again: every byte of the gateway must
be the same.

`python -m tests.gateway.record` records them anew; replaying needs no Postgres of that major.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import LOGIN, PASSWORD
from tests.gateway.recorded_sessions import log_in, read_exactly, read_fdw_recording
from tests.gateway.recording import MAJORS, make_recorded_lake, split_messages

from thermocline.gateway.wire.messages import FrontendMessage, Terminate
from thermocline.gateway.wire.protocol import ServerProtocol
from thermocline.gateway.wire.scram import ScramExchange

LOGIN_TURNS = 6
ASKED_BY_EVERY_MAJOR = (
    b"START TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    b"DECLARE c",
    b"FETCH 50 FROM c",
    b"SAVEPOINT s2",
    b"ROLLBACK TO SAVEPOINT s2",
    b"RELEASE SAVEPOINT s2",
    b"CLOSE c",
    b"COMMIT TRANSACTION",
    b"EXPLAIN SELECT",
    b"pg_catalog.",
)


@pytest.fixture(scope="module")
def recorded_site(shared_site: Any) -> Any:
    make_recorded_lake(shared_site)
    return shared_site


@pytest.mark.conforms("O-098")
@pytest.mark.parametrize("major", MAJORS)
def test_a_recorded_conversation_gets_the_same_bytes_again(recorded_site: Any, major: str) -> None:
    turns = read_fdw_recording(major)
    with socket.create_connection(("127.0.0.1", recorded_site.gateway.port), timeout=30) as line:
        said = log_in(line, turns[0].data)
        assert _without_key(said) == _without_key(split_messages(turns[5].data)[1:])
        asked = b""
        for number, turn in enumerate(turns[LOGIN_TURNS:]):
            if turn.who == "client":
                line.sendall(turn.data)
                asked = turn.data
                continue
            heard = read_exactly(line, len(turn.data))
            assert heard == turn.data, f"turn {number}, after {asked!r}"


def _without_key(messages: list[bytes]) -> list[bytes]:
    """BackendKeyData is a number and a secret of each connection."""
    return [message for message in messages if message[:1] != b"K"]


@pytest.mark.conforms("O-098")
@pytest.mark.parametrize("major", MAJORS)
def test_a_recorded_login_with_its_own_numbers_gets_the_same_bytes_again(major: str) -> None:
    offer, first, challenge, proof, answer = (turn.data for turn in read_fdw_recording(major)[1:6])
    assert offer == b"R\0\0\0\x17\0\0\0\nSCRAM-SHA-256\0\0"
    (initial,) = split_messages(first)
    client_first = initial[5:].partition(b"\0")[2][4:]
    parts = dict(part.split("=", 1) for part in challenge[9:].decode().split(","))
    nonce = parts["r"].removeprefix(client_first.rpartition(b"r=")[2].decode())
    exchange = ScramExchange(LOGIN, _verifier(parts["s"], int(parts["i"])), nonce=nonce)
    assert exchange.first(client_first) == challenge[9:]
    assert exchange.final(proof[5:]) == split_messages(answer)[0][9:]


def _verifier(salt: str, iterations: int) -> str:
    made = scramp.ScramMechanism("SCRAM-SHA-256").make_auth_info(
        PASSWORD, iteration_count=iterations, salt=base64.b64decode(salt)
    )
    stored, server = (base64.b64encode(key).decode() for key in (made[1], made[2]))
    return f"SCRAM-SHA-256${iterations}:{salt}${stored}:{server}"


@pytest.mark.parametrize("major", MAJORS)
def test_a_recording_holds_what_postgres_fdw_can_ask(major: str) -> None:
    asked = b"".join(turn.data for turn in read_fdw_recording(major) if turn.who == "client")
    assert [text for text in ASKED_BY_EVERY_MAJOR if text not in asked] == []


@given(
    major=st.sampled_from(list(MAJORS)),
    cuts=st.lists(st.integers(min_value=1, max_value=4000), min_size=1, max_size=40),
)
def test_any_split_of_a_recorded_stream_gives_the_same_messages(major: str, cuts: list[int]) -> None:
    data = b"".join(turn.data for turn in read_fdw_recording(major) if turn.who == "client")
    assert list(_messages(data, cuts)) == list(_messages(data, [len(data)]))


def _messages(data: bytes, cuts: list[int]) -> Iterator[FrontendMessage]:
    protocol, at = ServerProtocol(), 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        protocol.feed(data[at : at + size])
        at += size
        while (message := protocol.next_message()) is not None:
            yield message
            if isinstance(message, Terminate):
                return
