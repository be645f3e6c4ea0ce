"""The gateway's shell: sockets, threads, limits, signals. Everything it says is decided elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from thermocline.errors import GatewayNotStarted, NoStack, ThermoclineError
from thermocline.gateway import metrics
from thermocline.gateway.answers import PARAMETERS, Answers
from thermocline.gateway.engine import LakeEngine
from thermocline.gateway.lookup import LakeDirectory
from thermocline.gateway.problems import fatal
from thermocline.gateway.scram import MECHANISM, ScramExchange, WrongCredentials
from thermocline.gateway.session import Session
from thermocline.gateway.wire import messages as wire
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
from thermocline.settings import Settings, split_address

log = logging.getLogger(__name__)

_READ_BYTES = 65_536
_WRITE_BYTES = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """How one gateway runs."""

    dsn: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    max_connections: int = 200
    workers: int = 16
    duckdb_threads: int = field(default_factory=lambda: os.cpu_count() or 2)
    memory_limit_bytes: int = 2_000_000_000
    statement_timeout_seconds: float = 0
    login_timeout_seconds: float = 30
    drain_seconds: float = 10
    tls: ssl.SSLContext | None = None


class GatewayServer:
    """A running gateway; an async context manager."""

    def __init__(self, *, dsn: str, host: str = "127.0.0.1", port: int = 0, config: GatewayConfig | None = None) -> None:
        self.config = config or GatewayConfig(dsn=dsn, host=host, port=port)
        self.port = self.config.port
        self._directory = LakeDirectory(self.config.dsn)
        self._engine = LakeEngine(threads=self.config.duckdb_threads, memory_limit_bytes=self.config.memory_limit_bytes)
        self._answers = Answers(self._engine, self._directory)
        self._threads = ThreadPoolExecutor(self.config.workers, thread_name_prefix="gateway")
        self._connections: dict[tuple[int, int], Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._next_pid = 1

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._accept, self.config.host, self.config.port, backlog=1024)
        except OSError as problem:
            place = f"{self.config.host}:{self.config.port}"
            raise GatewayNotStarted(f"The gateway cannot listen on {place}: {problem.strerror or problem}.") from problem
        self._directory.open()
        self.port = int(self._server.sockets[0].getsockname()[1])
        log.info("gateway listens on %s port %d", self.config.host, self.port)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.drain(0 if error else self.config.drain_seconds)

    async def drain(self, seconds: float) -> None:
        """Takes no new connection, lets running statements end within the time, then closes."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.leave_when_idle()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._directory.close()
        self._engine.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        connection = Connection(self, reader, writer)
        metrics.CONNECTIONS.inc()
        try:
            await connection.serve()
        except (ConnectionError, TimeoutError, asyncio.CancelledError, ssl.SSLError):
            log.debug("connection ended early")
        except Exception:
            log.exception("connection failed")
        finally:
            metrics.CONNECTIONS.dec()
            self._connections.pop(connection.key, None)
            with contextlib.suppress(RuntimeError):
                await asyncio.shield(asyncio.wrap_future(self._threads.submit(connection.session.close)))
            await _hang_up(writer)

    def admit(self, connection: Connection) -> bool:
        """Gives the connection its number and secret, unless there are too many."""
        if len(self._connections) >= self.config.max_connections:
            return False
        connection.key = (self._next_pid, secrets.randbits(32))
        self._next_pid = self._next_pid % 0x7FFFFFFF + 1
        self._connections[connection.key] = connection
        return True

    def cancel(self, pid: int, secret: int) -> None:
        """Stops what another connection runs, if the secret is right."""
        connection = self._connections.get((pid, secret))
        if connection is not None:
            connection.session.cancel()

    async def blocking(self, work: Callable[[], object]) -> object:
        """Runs work in the gateway's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def read_verifier(self, user: str) -> str | None:
        verifier = await self.blocking(lambda: self._directory.read_verifier(user))
        return verifier if isinstance(verifier, str) else None

    @property
    def answers(self) -> Answers:
        return self._answers


class Connection:
    """One client's socket."""

    def __init__(self, server: GatewayServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.key = (0, 0)
        self._server = server
        self._reader = reader
        self._writer = writer
        self._protocol = ServerProtocol()
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)
        self._idle = False
        self._leaving = False
        self._main: asyncio.Task[None] | None = None
        timeout = server.config.statement_timeout_seconds
        self.session = Session(server.answers, self._send, server.blocking, timeout_seconds=timeout)

    async def serve(self) -> None:
        """Log in, then answer until the client leaves."""
        self._main = asyncio.current_task()
        raw = self._writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(self._server.config.login_timeout_seconds):
                if not await self._log_in():
                    return
            reading = asyncio.create_task(self._read_on())
            try:
                await self._converse()
            finally:
                reading.cancel()
        except ProtocolViolation as bad:
            log.debug("protocol violation: %s", bad)
            await self._say_goodbye("08P01", f"protocol violation: {bad}")

    def leave_when_idle(self) -> None:
        """Ends the connection as soon as no statement runs."""
        self._leaving = True
        if self._idle and self._main is not None:
            self._main.cancel()

    async def _log_in(self) -> bool:
        startup = await self._startup()
        if startup is None:
            return False
        user = startup.parameter("user")
        if not user:
            await self._say_goodbye("28000", "no user name given")
            return False
        if startup.minor > 0:
            unknown = [name for name, _ in startup.parameters if name.startswith("_pq_.")]
            await self._send(wire.negotiate_protocol_version(0, unknown))
        if not self._server.admit(self):
            await self._say_goodbye("53300", "too many connections to the gateway")
            return False
        try:
            await self._authenticate(user)
        except WrongCredentials:
            await self._say_goodbye("28P01", f'password authentication failed for user "{user}"')
            return False
        except ThermoclineError as problem:
            await self._say_goodbye("57P03", problem.message)
            return False
        status = b"".join(wire.parameter_status(name, value) for name, value in PARAMETERS.items())
        await self._send(wire.AUTHENTICATION_OK + status + wire.backend_key_data(*self.key) + wire.ready_for_query("I"))
        return True

    async def _startup(self) -> Startup | None:
        while True:
            message = await self._next_login_message()
            match message:
                case Startup():
                    return message
                case SslRequest():
                    await self._answer_tls()
                case GssEncRequest():
                    await self._send(wire.DECLINED)
                case CancelRequest():
                    self._server.cancel(message.pid, message.secret)
                    return None
                case _:
                    return None

    async def _answer_tls(self) -> None:
        tls = self._server.config.tls
        if tls is None:
            await self._send(wire.DECLINED)
            return
        if self._protocol.has_unread_bytes:
            raise ProtocolViolation("bytes after the TLS request")
        await self._send(wire.ACCEPTED_TLS)
        await self._writer.start_tls(tls)

    async def _authenticate(self, user: str) -> None:
        exchange = ScramExchange(user, await self._server.read_verifier(user))
        await self._send(wire.authentication_sasl([MECHANISM]))
        initial = await self._next_login_message()
        if not isinstance(initial, SaslInitial) or initial.mechanism != MECHANISM:
            raise WrongCredentials
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

    async def _read_on(self) -> None:
        """Takes bytes off the socket while a statement runs, so that a client that left is noticed at once."""
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(_READ_BYTES):
                await self._arrived.put(data)
        self.session.cancel()
        await self._arrived.put(b"")

    async def _converse(self) -> None:
        while True:
            message = self._protocol.next_message()
            if message is None:
                if self._leaving:
                    await self._say_goodbye("57P01", "the gateway is shutting down")
                    return
                self._idle = True
                data = await self._arrived.get()
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

    async def _say_goodbye(self, sqlstate: str, message: str) -> None:
        with contextlib.suppress(ConnectionError):
            await self._send(fatal(sqlstate, message))


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Closes a socket; a client that does not take its last bytes within a second loses them."""
    writer.close()
    try:
        async with asyncio.timeout(1):
            await writer.wait_closed()
    except (TimeoutError, OSError, asyncio.CancelledError):
        writer.transport.abort()


def run_gateway(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain."""
    if settings.dsn is None:
        raise NoStack
    host, port = split_address(settings.gateway_listen)
    asyncio.run(_serve(GatewayConfig(dsn=settings.dsn, host=host, port=port)))


async def _serve(config: GatewayConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with GatewayServer(dsn=config.dsn, config=config):
        await stop.wait()
        log.info("gateway drains")


class GatewayThread:
    """A gateway running in a thread of this process."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self.host = config.host
        self.port = config.port

    def start(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def stop(self) -> None:
        """Drain and end; safe to call twice."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._started.set()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _main(self) -> None:
        async with GatewayServer(dsn=self.config.dsn, config=self.config) as server:
            self.port = server.port
            self._started.set()
            await self._stop.wait()


def start_in_thread(dsn: str, port: int = 0, host: str = "127.0.0.1", *, config: GatewayConfig | None = None) -> GatewayThread:
    """A gateway for tests and for embedding: `.port`, `.stop()`, or as a context manager."""
    return GatewayThread(config or GatewayConfig(dsn=dsn, host=host, port=port)).start()
