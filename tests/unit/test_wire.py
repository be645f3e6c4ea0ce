"""The protocol core: any split of the bytes gives the same messages, and no bytes do more than close their own
connection."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.gateway.wire.messages import (
    Bind,
    Close,
    Describe,
    Execute,
    Flush,
    FrontendMessage,
    Parse,
    ProtocolViolation,
    Query,
    SaslInitial,
    SaslResponse,
    SslRequest,
    Startup,
    Sync,
    Terminate,
)
from thermocline.gateway.wire.protocol import TRANSITIONS, ServerProtocol, State

pytestmark = pytest.mark.unit


def typed(tag: bytes, body: bytes = b"") -> bytes:
    return tag + struct.pack(">i", len(body) + 4) + body


def untyped(body: bytes) -> bytes:
    return struct.pack(">i", len(body) + 4) + body


LOGIN = [
    (untyped(struct.pack(">i", 80877103)), SslRequest()),
    (
        untyped(struct.pack(">i", 196608) + b"user\0ann\0database\0lake\0\0"),
        Startup(minor=0, parameters=(("user", "ann"), ("database", "lake"))),
    ),
    (
        typed(b"p", b"SCRAM-SHA-256\0" + struct.pack(">i", 3) + b"abc"),
        SaslInitial(mechanism="SCRAM-SHA-256", data=b"abc"),
    ),
    (typed(b"p", b"proof"), SaslResponse(data=b"proof")),
]

texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
names = texts.map(lambda text: text.encode() + b"\0")


@st.composite
def binds(draw: st.DrawFn) -> tuple[bytes, FrontendMessage]:
    portal, statement = draw(texts), draw(texts)
    values = draw(st.lists(st.none() | st.binary(max_size=20), max_size=4))
    body = portal.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">HHH", 1, 0, len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    body += struct.pack(">HH", 1, 0)
    return typed(b"B", body), Bind(
        portal=portal, statement=statement, parameter_formats=(0,), parameters=tuple(values), result_formats=(0,)
    )


sent = st.one_of(
    texts.map(lambda text: (typed(b"Q", text.encode() + b"\0"), Query(sql=text))),
    st.tuples(texts, texts, st.lists(st.integers(0, 2**32 - 1), max_size=3)).map(
        lambda parts: (
            typed(
                b"P",
                parts[0].encode()
                + b"\0"
                + parts[1].encode()
                + b"\0"
                + struct.pack(f">H{len(parts[2])}I", len(parts[2]), *parts[2]),
            ),
            Parse(name=parts[0], sql=parts[1], parameter_oids=tuple(parts[2])),
        )
    ),
    binds(),
    texts.map(lambda text: (typed(b"D", b"P" + text.encode() + b"\0"), Describe(kind="P", name=text))),
    texts.map(lambda text: (typed(b"C", b"S" + text.encode() + b"\0"), Close(kind="S", name=text))),
    st.tuples(texts, st.integers(0, 2**31 - 1)).map(
        lambda parts: (
            typed(b"E", parts[0].encode() + b"\0" + struct.pack(">i", parts[1])),
            Execute(portal=parts[0], max_rows=parts[1]),
        )
    ),
    st.just((typed(b"H"), Flush())),
    st.just((typed(b"S"), Sync())),
)


def drained(protocol: ServerProtocol) -> list[FrontendMessage]:
    found = []
    while (message := protocol.next_message()) is not None:
        found.append(message)
    return found


@given(conversation=st.lists(sent, max_size=8), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_any_split_of_the_bytes_gives_the_same_messages(
    conversation: list[tuple[bytes, FrontendMessage]], cuts: list[int]
) -> None:
    spoken = [*LOGIN, *conversation, (typed(b"X"), Terminate())]
    data = b"".join(piece for piece, _ in spoken)
    protocol, found, at, turn = ServerProtocol(), [], 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        protocol.feed(data[at : at + step])
        found += drained(protocol)
        at, turn = at + step, turn + 1
    assert found == [message for _, message in spoken]
    assert protocol.state is State.CLOSED


@given(data=st.binary(max_size=400), logged_in=st.booleans())
def test_garbage_is_a_protocol_violation_or_waits_for_more(data: bytes, logged_in: bool) -> None:
    protocol = ServerProtocol()
    if logged_in:
        protocol.feed(b"".join(piece for piece, _ in LOGIN))
        drained(protocol)
    protocol.feed(data)
    try:
        drained(protocol)
    except ProtocolViolation:
        return
    assert len(data) < 64 * 1024 * 1024


@given(tag=st.sampled_from(b"QPBDECSHXFdcf"), body=st.binary(max_size=60))
def test_a_message_with_a_broken_body_is_a_protocol_violation_or_a_message(tag: int, body: bytes) -> None:
    protocol = ServerProtocol()
    protocol.feed(b"".join(piece for piece, _ in LOGIN))
    drained(protocol)
    protocol.feed(typed(bytes([tag]), body))
    with contextlib.suppress(ProtocolViolation):
        assert len(drained(protocol)) == 1


def ready() -> ServerProtocol:
    protocol = ServerProtocol(max_message_bytes=1000)
    protocol.feed(b"".join(piece for piece, _ in LOGIN))
    drained(protocol)
    return protocol


def test_after_an_error_everything_is_dropped_until_sync() -> None:
    protocol = ready()
    protocol.skip_until_sync()
    protocol.feed(typed(b"E", b"\0" + struct.pack(">i", 0)) + typed(b"Q", b"select 1\0") + typed(b"S") + typed(b"H"))
    assert drained(protocol) == [Sync(), Flush()]


def test_a_message_above_the_limit_is_refused_before_it_arrives() -> None:
    protocol = ready()
    protocol.feed(b"Q" + struct.pack(">i", 2000))
    with pytest.raises(ProtocolViolation, match="impossible length"):
        protocol.next_message()


def test_a_query_before_the_login_is_refused() -> None:
    protocol = ServerProtocol()
    protocol.feed(LOGIN[1][0] + typed(b"Q", b"select 1\0"))
    assert isinstance(protocol.next_message(), Startup)
    with pytest.raises(ProtocolViolation):
        protocol.next_message()


def test_a_large_login_message_is_refused() -> None:
    protocol = ServerProtocol()
    protocol.feed(LOGIN[1][0] + b"p" + struct.pack(">i", 1_000_000))
    protocol.next_message()
    with pytest.raises(ProtocolViolation):
        protocol.next_message()


def test_every_state_says_what_it_allows() -> None:
    assert set(TRANSITIONS) == set(State)
