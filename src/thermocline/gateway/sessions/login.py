"""Login of a relayed session: the authentication exchange is forwarded to Postgres, and the gateway learns no secret.

Where both connections are encrypted, channel binding would fail: client and Postgres see different certificates. Only
then the gateway asks for the password over TLS and runs SCRAM with Postgres itself. A Postgres that asks the gateway's
host for no password would let everybody in, so such a login is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scramp import ScramClient, ScramException

from thermocline.errors import PostgresUnreachable
from thermocline.gateway.sessions.error_responses import render_fatal
from thermocline.gateway.sessions.upstream import UpstreamConnection
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.frames import DataChunk, Frame, ServerFrameReader
from thermocline.gateway.wire.scram import MECHANISM

_OK, _CLEARTEXT, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12
_NO_PASSWORD = "Postgres asks the gateway's host for no password, so a person's login cannot be checked here"

ReadFrame = Callable[[], Awaitable[Frame | None]]
Send = Callable[[bytes | memoryview], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginClient:
    """The client that logs in."""

    user: str
    encrypted: bool
    read: ReadFrame
    send: Send


class UpstreamLogin:
    """One login on one connection to Postgres."""

    def __init__(self, upstream: UpstreamConnection, pieces: ServerFrameReader, client: LoginClient) -> None:
        self._upstream = upstream
        self._pieces = pieces
        self._client = client
        self._waiting: list[Frame] = []
        self._is_password_checked = False
        self.parameters: list[Frame] = []
        """ParameterStatus messages that Postgres sent after the login."""

    async def run(self, key: tuple[int, int]) -> bool:
        """True when Postgres accepted the client; the client gets the gateway's own cancel key."""
        runs_scram = self._client.encrypted and self._upstream.endpoint.tls is not None
        while True:
            frame = await self._next()
            match frame.tag:
                case b"R":
                    (code,) = struct.unpack_from(">i", frame.body)
                    if code == _OK:
                        if not self._is_password_checked:
                            await self._client.send(render_fatal("28000", _NO_PASSWORD))
                            return False
                        await self._client.send(frame.data)
                        return await self._finish_startup(key)
                    if not await (
                        self._run_scram() if runs_scram and code == _SASL else self._forward_exchange(code, frame)
                    ):
                        return False
                case b"E":
                    await self._client.send(frame.data)
                    return False
                case _:
                    await self._client.send(frame.data)

    async def _finish_startup(self, key: tuple[int, int]) -> bool:
        while True:
            frame = await self._next()
            if frame.tag == b"K":
                self._upstream.key = frame.body
                await self._client.send(wire.backend_key_data(*key))
                continue
            if frame.tag == b"S":
                self.parameters.append(frame)
            await self._client.send(frame.data)
            if frame.tag in (b"Z", b"E"):
                return frame.tag == b"Z"

    async def _forward_exchange(self, code: int, frame: Frame) -> bool:
        """Forward Postgres' authentication request to the client and the response to Postgres."""
        if code == _SASL:
            # Channel binding ends at the gateway, so it is not offered.
            await self._client.send(wire.authentication_sasl([MECHANISM]))
        elif code in (_CLEARTEXT, _MD5, _SASL_CONTINUE, _SASL_FINAL):
            await self._client.send(frame.data)
        else:
            await self._client.send(
                render_fatal("28000", "Postgres asks for a way to log in that the gateway does not pass on")
            )
            return False
        if code == _SASL_FINAL:
            return True
        response = await self._client.read()
        if response is None or response.tag != b"p":
            return False
        self._is_password_checked = True
        await self._upstream.send(response.data)
        return True

    async def _run_scram(self) -> bool:
        """Ask the client for its password over TLS and run SCRAM with Postgres; the password is not kept."""
        await self._client.send(wire.encode(b"R", struct.pack(">i", _CLEARTEXT)))
        response = await self._client.read()
        if response is None or response.tag != b"p":
            return False
        self._is_password_checked = True
        password = response.body.rstrip(b"\0").decode("utf-8", "replace")
        scram_client = ScramClient([MECHANISM], self._client.user, password)
        first = scram_client.get_client_first().encode()
        await self._upstream.send(wire.encode(b"p", wire.text(MECHANISM) + struct.pack(">i", len(first)) + first))
        try:
            scram_client.set_server_first(await self._next_sasl(_SASL_CONTINUE))
            await self._upstream.send(wire.encode(b"p", scram_client.get_client_final().encode()))
            scram_client.set_server_final(await self._next_sasl(_SASL_FINAL))
        except ScramException:
            await self._client.send(
                render_fatal("28P01", f'password authentication failed for user "{self._client.user}"')
            )
            return False
        except _Refused as refused:
            await self._client.send(refused.frame.data)
            return False
        return True

    async def _next_sasl(self, expected: int) -> str:
        frame = await self._next()
        if frame.tag == b"E":
            raise _Refused(frame)
        (code,) = struct.unpack_from(">i", frame.body)
        if frame.tag != b"R" or code != expected:
            raise PostgresUnreachable("Postgres answered a login in a way the gateway does not know.")
        return frame.body[4:].decode()

    async def _next(self) -> Frame:
        while not self._waiting:
            data = await self._upstream.read()
            if not data:
                raise PostgresUnreachable("Postgres hung up during the login.")
            self._waiting += [piece for piece in self._pieces.feed(data) if not isinstance(piece, DataChunk)]
        return self._waiting.pop(0)


class _Refused(Exception):
    """Postgres' own refusal."""

    def __init__(self, frame: Frame) -> None:
        super().__init__("refused")
        self.frame = frame
