"""Messages of both sides as frames: bytes in, frames out, nothing decoded that need not be. No socket."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from thermocline.gateway.wire.messages import ProtocolViolation

LARGE_FRAME_BYTES = 1024 * 1024
"""A message larger than this is passed on in parts as it arrives: no statement that long is ever read here."""
MAX_LOGIN_BYTES = 65_536
"""The longest message before the login is complete."""
_DATA = (ord("D"), ord("d"))
_HEADER_BYTES = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: its type and all its bytes."""

    tag: bytes
    data: bytes

    @property
    def body(self) -> bytes:
        return self.data[_HEADER_BYTES:]


@dataclass(frozen=True, slots=True)
class DataChunk:
    """A run of data messages, cut anywhere: only good for passing on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class FramePart:
    """A part of one large message of a client; only the first has its type."""

    tag: bytes | None
    data: bytes


Piece = Frame | DataChunk


class ClientFrameReader:
    """What a client sends after its login."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._rest_bytes = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_login_frame(self) -> Frame | None:
        """The next whole message before the login is complete; a client that is not known yet has little to say."""
        if len(self._buffer) < _HEADER_BYTES:
            return None
        if not 4 <= struct.unpack_from(">i", self._buffer, 1)[0] <= MAX_LOGIN_BYTES:
            raise ProtocolViolation("message of an impossible length")
        frame = self.next_frame()
        assert not isinstance(frame, FramePart)
        return frame

    def next_frame(self) -> Frame | FramePart | None:
        """The next whole message, or what is here of a large one; `None` when more bytes are needed."""
        if self._rest_bytes:
            return FramePart(None, self._taken(min(self._rest_bytes, len(self._buffer)))) if self._buffer else None
        if len(self._buffer) < _HEADER_BYTES:
            return None
        tag, length = struct.unpack_from(">ci", self._buffer)
        if length < 4:
            raise ProtocolViolation("message of an impossible length")
        if length > LARGE_FRAME_BYTES:
            self._rest_bytes = length + 1
            return FramePart(tag, self._taken(min(self._rest_bytes, len(self._buffer))))
        if len(self._buffer) < length + 1:
            return None
        data = bytes(self._buffer[: length + 1])
        del self._buffer[: length + 1]
        return Frame(tag, data)

    def _taken(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._rest_bytes -= count
        return data


class ServerFrameReader:
    """What Postgres sends: rows are passed on as they come, everything else is one frame each."""

    def __init__(self) -> None:
        self._buffer = b""
        self._rest_bytes = 0

    def feed(self, data: bytes, *, whole: bool = False) -> list[Piece]:
        """The pieces that are complete now; with `whole`, no row is cut."""
        pieces: list[Piece] = []
        if self._rest_bytes:
            taken = min(self._rest_bytes, len(data))
            pieces.append(DataChunk(data[:taken]))
            self._rest_bytes -= taken
            data = data[taken:]
        buffer, at = self._buffer + data, 0
        run = 0
        while len(buffer) - at >= _HEADER_BYTES:
            end = at + 1 + struct.unpack_from(">i", buffer, at + 1)[0]
            is_data = buffer[at] in _DATA
            if end > len(buffer):
                if is_data and not whole:
                    self._rest_bytes, end = end - len(buffer), len(buffer)
                else:
                    break
            if not is_data:
                if run < at:
                    pieces.append(DataChunk(buffer[run:at]))
                pieces.append(Frame(buffer[at : at + 1], buffer[at:end]))
                run = end
            at = end
        if run < at:
            pieces.append(DataChunk(buffer[run:at]))
        self._buffer = buffer[at:]
        return pieces
