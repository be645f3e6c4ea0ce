"""The extended protocol's messages up to a Sync, when they are one plain execution: parsed (or prepared before), bound,
run once. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thermocline.gateway.wire.frames import Frame
from thermocline.gateway.wire.messages import Bind, FieldReader, ProtocolViolation, encode, text
from thermocline.gateway.wire.protocol import decode_bind, decode_parse

ReadPrepared = Callable[[str], str | None]
"""The text of a statement that was prepared before, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedBatch:
    """One execution. `prepared` is all but the execution; Postgres answers it with `response_count` messages."""

    sql: str
    bind: Bind
    bind_frame: Frame
    execute_frame: Frame
    prepared: bytes
    response_count: int
    is_prepared_earlier: bool
    """Whether the statement was prepared before, and Postgres has read its literals already."""

    @property
    def close_portal(self) -> bytes:
        """Needed before a second Bind to a portal with a name, hidden from the client with it."""
        return encode(b"C", b"P" + text(self.bind.portal)) if self.bind.portal else b""


def decode_prepared(frame: Frame) -> tuple[str, str] | None:
    """The name and text of a Parse; `None` for what is none, or is malformed: that is Postgres' to refuse."""
    if frame.tag != b"P":
        return None
    try:
        fields = FieldReader(frame.body)
        made = decode_parse(fields)
        fields.end()
    except ProtocolViolation:
        return None
    return made.name, made.sql


def read_batch(frames: Sequence[Frame], read_prepared: ReadPrepared) -> ExtendedBatch | None:
    """The execution, or `None` when the messages are anything else: malformed ones are Postgres' to refuse."""
    try:
        return _read_execution(frames, read_prepared)
    except ProtocolViolation:
        return None


def _read_execution(frames: Sequence[Frame], read_prepared: ReadPrepared) -> ExtendedBatch | None:
    tags = b"".join(frame.tag for frame in frames)
    if (
        tags.count(b"B") != 1
        or tags.count(b"E") != 1
        or tags.count(b"P") > 1
        or b"C" in tags
        or not tags.endswith(b"E")
    ):
        return None
    if b"P" in tags and not tags.startswith(b"P"):
        return None
    made = decode_prepared(frames[0])
    if made is None and b"P" in tags:
        return None
    bind_frame = next(frame for frame in frames if frame.tag == b"B")
    fields = FieldReader(bind_frame.body)
    bind = decode_bind(fields)
    fields.end()
    portal, max_rows = _execution(frames[-1])
    # The unnamed statement cannot be looked up in Postgres, so it must come with its text.
    if made is not None and made[0] == bind.statement:
        sql: str | None = made[1]
    else:
        sql = read_prepared(bind.statement) if bind.statement else None
    if portal != bind.portal or max_rows > 0 or sql is None:
        return None
    before = frames[:-1]
    response_count = sum(2 if frame.tag == b"D" and frame.body[:1] == b"S" else 1 for frame in before)
    return ExtendedBatch(
        sql=sql,
        bind=bind,
        bind_frame=bind_frame,
        execute_frame=frames[-1],
        prepared=b"".join(frame.data for frame in before),
        response_count=response_count,
        is_prepared_earlier=made is None or made[0] != bind.statement,
    )


def _execution(frame: Frame) -> tuple[str, int]:
    fields = FieldReader(frame.body)
    portal = fields.text()
    (max_rows,) = struct.unpack(">i", fields.take(4))
    fields.end()
    return portal, max_rows
