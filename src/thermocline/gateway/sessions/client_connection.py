"""One client connection: TLS, login, then a lake session or a relayed session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Protocol

from thermocline.errors import ThermoclineError
from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.lake_arm.lake_query_service import PARAMETERS, LakeQueryService
from thermocline.gateway.sessions.error_responses import render_fatal
from thermocline.gateway.sessions.lake_session import LakeSession
from thermocline.gateway.sessions.login import LoginClient, UpstreamLogin
from thermocline.gateway.sessions.query_interceptor import QueryInterceptor
from thermocline.gateway.sessions.relay_link import RelayLink
from thermocline.gateway.sessions.relay_session import RelaySession
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sessions.upstream import PostgresEndpoint, UpstreamConnection
from thermocline.gateway.whole_query.whole_query_service import WholeQueryService
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.frames import ClientFrameReader, Frame, ServerFrameReader
from thermocline.gateway.wire.messages import (
    CancelRequest,
    FrontendMessage,
    GssEncRequest,
    ProtocolViolation,
    SaslInitial,
    SaslResponse,
    SslRequest,
    Startup,
    Terminate,
)
from thermocline.gateway.wire.protocol import ServerProtocol
from thermocline.gateway.wire.scram import BOUND_MECHANISM, MECHANISM, ScramExchange, WrongCredentials

log = logging.getLogger(__name__)

LAKE_DATABASE = "lake"
"""The database name that the foreign server connects to; clients of other databases are relayed."""

_READ_BYTES = 65_536
_REFUSED_SECONDS = 2.0
_WRITE_BYTES = 262_144


class GatewayServices(Protocol):
    """What a connection needs from the server."""

    config: GatewayConfig

    @property
    def lake_queries(self) -> LakeQueryService: ...
    @property
    def whole_queries(self) -> WholeQueryService: ...
    def assign_key(self, connection: ClientConnection) -> None: ...
    def cancel(self, pid: int, secret: int) -> None: ...
    async def blocking(self, work: Callable[[], object]) -> object: ...
    async def read_verifier(self, user: str) -> str | None: ...
    async def read_endpoint(self) -> PostgresEndpoint: ...


class ClientConnection:
    """One client connection."""

    def __init__(
        self,
        server: GatewayServices,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        refusal: str | None = None,
    ) -> None:
        """With a `refusal` the connection may cancel a statement of another, and is told why it is not served."""
        self.key = (0, 0)
        self._refusal = refusal
        self._server = server
        self._reader = reader
        self._writer = writer
        self._protocol = ServerProtocol()
        self._received: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)
        self._idle = False
        self._is_closing = False
        self._main: asyncio.Task[None] | None = None
        self._relay: RelaySession | None = None
        self._sending = asyncio.Lock()
        self._cancelling: asyncio.Task[None] | None = None
        self._end_point: bytes | None = None
        config = server.config
        self._control = StatementControl(
            server.blocking,
            timeout_seconds=config.statement_timeout_seconds,
            slow_seconds=config.slow_statement_seconds,
        )
        self.session = LakeSession(server.lake_queries, self._send, self._control)

    async def serve(self) -> None:
        """Log in, then serve until the client disconnects."""
        self._main = asyncio.current_task()
        raw = self._writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(self._server.config.login_timeout_seconds):
                if not await self._log_in():
                    return
            if self._relay is not None:
                await self._relay.converse()
                return
            reading = asyncio.create_task(self._read_ahead())
            try:
                await self._process_messages()
            finally:
                reading.cancel()
        except ProtocolViolation as bad:
            log.debug("protocol violation: %s", bad)
            await self._send_fatal("08P01", f"protocol violation: {bad}")

    def close_when_idle(self) -> None:
        """Close the connection as soon as no statement runs."""
        self._is_closing = True
        if self._relay is not None:
            self._relay.close_when_idle()
        if self._idle and self._main is not None:
            self._main.cancel()

    def cancel(self) -> None:
        """Cancel the running statement, if any."""
        if self._relay is None:
            self.session.cancel()
        else:
            self._cancelling = asyncio.create_task(self._relay.cancel())

    async def _log_in(self) -> bool:
        seconds = self._server.config.startup_timeout_seconds if self._refusal is None else _REFUSED_SECONDS
        async with asyncio.timeout(seconds):
            startup = await self._startup()
        if startup is None:
            return False
        if self._refusal is not None:
            await self._send_fatal("53300", self._refusal)
            return False
        if self._server.config.tls_required and self._writer.get_extra_info("ssl_object") is None:
            await self._send_fatal("28000", "the gateway takes connections over TLS only")
            return False
        user = startup.parameter("user")
        if not user:
            await self._send_fatal("28000", "no user name given")
            return False
        if startup.minor > 0:
            unknown = [name for name, _ in startup.parameters if name.startswith("_pq_.")]
            await self._send(wire.negotiate_protocol_version(0, unknown))
        self._server.assign_key(self)
        try:
            if await self._is_relayed(startup, user):
                return await self._log_in_relayed(startup, user)
            await self._authenticate(user)
            self.session.log_in(user)
        except WrongCredentials:
            await self._send_fatal("28P01", f'password authentication failed for user "{user}"')
            return False
        except ThermoclineError as problem:
            await self._send_fatal("57P03", problem.message)
            return False
        status = b"".join(wire.parameter_status(name, value) for name, value in PARAMETERS.items())
        await self._send(wire.AUTHENTICATION_OK + status + wire.backend_key_data(*self.key) + wire.ready_for_query("I"))
        return True

    async def _is_relayed(self, startup: Startup, user: str) -> bool:
        if startup.parameter("database") != LAKE_DATABASE:
            return True
        return (
            await self._server.read_verifier(user) is None
            and (await self._server.read_endpoint()).database == LAKE_DATABASE
        )

    async def _log_in_relayed(self, startup: Startup, user: str) -> bool:
        """Authenticate against Postgres; the session is then relayed to it."""
        frames = ClientFrameReader()
        frames.feed(self._protocol.take_unread())

        async def next_frame() -> Frame | None:
            while (frame := frames.next_login_frame()) is None:
                data = await self._reader.read(_READ_BYTES)
                if not data:
                    return None
                frames.feed(data)
            return frame

        upstream, pieces = await UpstreamConnection.open(await self._server.read_endpoint()), ServerFrameReader()
        encrypted = self._writer.get_extra_info("ssl_object") is not None
        visitor = LoginClient(user=user, encrypted=encrypted, read=next_frame, send=self._send)
        try:
            await upstream.start([(name, value) for name, value in startup.parameters if not name.startswith("_pq_.")])
            login = UpstreamLogin(upstream, pieces, visitor)
            if await login.run(self.key):
                link = RelayLink(upstream, pieces, self._send_uninterrupted)
                for frame in login.parameters:
                    link.record_parameter(frame)
                interceptor = QueryInterceptor(
                    self._server.whole_queries, link, self._send_uninterrupted, self._control
                )
                is_here = (
                    startup.parameter("database") == upstream.endpoint.database
                    and startup.parameter("replication") is None
                )
                self._relay = RelaySession(
                    link,
                    frames,
                    lambda: self._reader.read(_READ_BYTES),
                    self._send_uninterrupted,
                    interceptor if is_here else None,
                )
        finally:
            if self._relay is None:
                upstream.close()
        return self._relay is not None

    async def _startup(self) -> Startup | None:
        while True:
            message = await self._next_login_message()
            match message:
                case Startup():
                    return message
                case SslRequest():
                    await self._start_tls()
                case GssEncRequest():
                    await self._send(wire.DECLINED)
                case CancelRequest():
                    self._server.cancel(message.pid, message.secret)
                    return None
                case _:
                    return None

    async def _start_tls(self) -> None:
        certificate = self._server.config.certificate
        if certificate is None:
            await self._send(wire.DECLINED)
            return
        if self._protocol.has_unread_bytes:
            raise ProtocolViolation("bytes after the TLS request")
        # Plain bytes sent after the request must not be read as if they were encrypted.
        transport = self._writer.transport
        if isinstance(transport, asyncio.ReadTransport):
            transport.pause_reading()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                if await self._reader.read(1):
                    raise ProtocolViolation("bytes after the TLS request")
        self._end_point = certificate.end_point
        await self._send(wire.ACCEPTED_TLS)
        await self._writer.start_tls(certificate.context)

    async def _authenticate(self, user: str) -> None:
        verifier = await self._server.read_verifier(user)
        offered = [MECHANISM] if self._end_point is None else [BOUND_MECHANISM, MECHANISM]
        await self._send(wire.authentication_sasl(offered))
        initial = await self._next_login_message()
        if not isinstance(initial, SaslInitial) or initial.mechanism not in offered:
            raise WrongCredentials
        exchange = ScramExchange(user, verifier, mechanism=initial.mechanism, end_point=self._end_point)
        await self._send(wire.authentication_sasl_continue(exchange.first(initial.data)))
        proof = await self._next_login_message()
        if not isinstance(proof, SaslResponse):
            raise WrongCredentials
        await self._send(wire.authentication_sasl_final(exchange.final(proof.data)))

    async def _next_login_message(self) -> FrontendMessage | None:
        while (message := self._protocol.next_message()) is None:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return None
            self._protocol.feed(data)
        return message

    async def _read_ahead(self) -> None:
        """Read from the socket while a statement runs, so that a disconnect is noticed at once."""
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(_READ_BYTES):
                await self._received.put(data)
        self.session.cancel()
        await self._received.put(b"")

    async def _process_messages(self) -> None:
        while True:
            message = self._protocol.next_message()
            if message is None:
                if self._is_closing:
                    await self._send_fatal("57P01", "the gateway is shutting down")
                    return
                self._idle = True
                data = await self._received.get()
                self._idle = False
                if not data:
                    return
                self._protocol.feed(data)
                continue
            if isinstance(message, Terminate):
                return
            if not await self.session.answer(message):
                self._protocol.skip_until_sync()

    async def _send(self, data: bytes | memoryview) -> None:
        for at in range(0, len(data), _WRITE_BYTES):
            self._writer.write(data[at : at + _WRITE_BYTES])
            await self._writer.drain()

    async def _send_uninterrupted(self, data: bytes | memoryview) -> None:
        """Send messages that no other may interleave: Postgres can send a notification while DuckDB's rows are sent."""
        async with self._sending:
            await self._send(data)

    async def _send_fatal(self, sqlstate: str, message: str) -> None:
        with contextlib.suppress(ConnectionError):
            await self._send(render_fatal(sqlstate, message))


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a socket; bytes that the client does not read within a second are dropped."""
    writer.close()
    try:
        async with asyncio.timeout(1):
            await writer.wait_closed()
    except (TimeoutError, OSError, asyncio.CancelledError):
        writer.transport.abort()
