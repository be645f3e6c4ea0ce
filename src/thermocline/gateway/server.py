"""The gateway server: connections, worker threads, limits, signals and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import secrets
import signal
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import psycopg

from thermocline.errors import GatewayNotStarted, ThermoclineError
from thermocline.gateway import metrics
from thermocline.gateway.config import Certificate, GatewayConfig, build_config
from thermocline.gateway.executor.executor_pool import ExecutorPool
from thermocline.gateway.executor.jobs import ExecutorConfig
from thermocline.gateway.health_server import HealthServer
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.lake_query_service import LakeQueryService
from thermocline.gateway.sessions.client_connection import ClientConnection, close_writer
from thermocline.gateway.sessions.connection_slots import REFUSALS, Admission, ConnectionSlots, address_group
from thermocline.gateway.sessions.upstream import PostgresEndpoint, read_endpoint
from thermocline.gateway.whole_query.whole_query_service import WholeQueryService
from thermocline.ops.health.lake_reach import LakeReach
from thermocline.runtime.settings import Settings

log = logging.getLogger(__name__)


class GatewayServer:
    """A running gateway; an async context manager."""

    def __init__(
        self, *, dsn: str, host: str = "127.0.0.1", port: int = 0, config: GatewayConfig | None = None
    ) -> None:
        self.config = config or GatewayConfig(dsn=dsn, host=host, port=port)
        self.port = self.config.port
        self._catalog = CatalogReader(self.config.dsn, evaluations=self.config.evaluations)
        executor = ExecutorConfig(
            dsn=self.config.dsn, threads=self.config.duckdb_threads, memory=self.config.memory, spill_path=""
        )
        self._executors = ExecutorPool(executor, most=self.config.executors, at_once=self.config.workers)
        self._engine = DuckDbEngine(self._executors)
        self._lake_queries = LakeQueryService(self._engine, self._catalog)
        self._whole_queries = WholeQueryService(
            self.config.dsn, self._engine, self._catalog, at_once=self.config.workers
        )
        # A connection runs one statement at a time. Those that wait for an executor or for Postgres never keep a thread
        # from those that have one.
        threads = self.config.max_connections + self.config.workers
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="gateway")
        self._lake_reach = LakeReach(self._catalog.read_some_locations)
        self._health: HealthServer | None = None
        self._slots = ConnectionSlots(self.config.max_connections, self.config.connections_of_address)
        self._connections: dict[tuple[int, int], ClientConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._next_pid = 1
        self._draining = False

    @property
    def http_port(self) -> int | None:
        """The port of health and metrics, once started."""
        return None if self._health is None else self._health.port

    def why_not_ready(self) -> str | None:
        """The reason why no statement can be run now, or `None`; blocks."""
        if self._draining:
            return "The gateway is shutting down."
        try:
            self._catalog.check_reachable()
        except (ThermoclineError, psycopg.Error) as problem:
            return str(problem)
        return self._lake_reach.why_not()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.drain(0)
            raise
        return self

    async def _start(self) -> None:
        try:
            self._server = await asyncio.start_server(self._accept, self.config.host, self.config.port, backlog=2048)
        except OSError as problem:
            endpoint = f"{self.config.host}:{self.config.port}"
            raise GatewayNotStarted(
                f"The gateway cannot listen on {endpoint}: {problem.strerror or problem}."
            ) from problem
        self._catalog.open()
        self._whole_queries.open()
        await asyncio.get_running_loop().run_in_executor(None, self._executors.start)
        self.port = int(self._server.sockets[0].getsockname()[1])
        if self.config.http_port is not None:
            loop = asyncio.get_running_loop()
            self._health = HealthServer(self.config.http_host, self.config.http_port, self.why_not_ready, loop)
            await loop.run_in_executor(None, self._health.start)
        log.info("gateway listens on %s port %d", self.config.host, self.port)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain(0 if error else self.config.drain_seconds)

    async def drain(self, seconds: float) -> None:
        """Stop accepting connections, let running statements end within the time, then close."""
        self._draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.close_when_idle()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        if self._health is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._health.stop)
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._whole_queries.close()
        self._catalog.close()
        self._executors.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        address = address_group(writer.get_extra_info("peername"))
        admission = self._slots.open(address)
        if admission is Admission.CLOSED:
            writer.transport.abort()
            return
        connection = ClientConnection(self, reader, writer, refusal=REFUSALS.get(admission))
        metrics.CONNECTIONS.inc()
        try:
            await connection.serve()
        except (ConnectionError, TimeoutError, asyncio.CancelledError, ssl.SSLError):
            log.debug("connection ended early")
        except Exception as problem:
            log.exception("connection failed: %s", problem)
        finally:
            metrics.CONNECTIONS.dec()
            self._slots.close(address, admission)
            self._connections.pop(connection.key, None)
            try:
                with contextlib.suppress(RuntimeError):
                    await asyncio.shield(asyncio.wrap_future(self._threads.submit(connection.session.close)))
            except Exception as problem:
                log.exception("a session could not be closed: %s", problem)
            finally:
                await close_writer(writer)

    def assign_key(self, connection: ClientConnection) -> None:
        """Give the connection the key by which its statements are cancelled."""
        connection.key = (self._next_pid, secrets.randbits(32))
        self._next_pid = self._next_pid % 0x7FFFFFFF + 1
        self._connections[connection.key] = connection

    def cancel(self, pid: int, secret: int) -> None:
        """Cancel the statement of the connection with this key."""
        connection = self._connections.get((pid, secret))
        if connection is not None:
            connection.cancel()

    async def blocking(self, work: Callable[[], object]) -> object:
        """Runs work in the gateway's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def read_verifier(self, user: str) -> str | None:
        verifier = await self.blocking(lambda: self._catalog.read_verifier(user))
        return verifier if isinstance(verifier, str) else None

    async def read_endpoint(self) -> PostgresEndpoint:
        """Host, port, database and TLS of Postgres."""
        endpoint = await self.blocking(lambda: read_endpoint(self._catalog))
        if not isinstance(endpoint, PostgresEndpoint):
            raise TypeError(endpoint)
        return endpoint

    @property
    def lake_queries(self) -> LakeQueryService:
        return self._lake_queries

    @property
    def whole_queries(self) -> WholeQueryService:
        return self._whole_queries

    @property
    def draining(self) -> bool:
        return self._draining


def run_gateway(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain; SIGHUP reads the certificate again."""
    config = build_config(settings)
    _allow_open_files(3 * config.max_connections + 2 * config.executors + 512)
    asyncio.run(_serve(config))


def _allow_open_files(count: int) -> None:
    """Raise the soft limit of open files, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


async def _serve(config: GatewayConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.certificate is not None:
        loop.add_signal_handler(signal.SIGHUP, _reload, config.certificate)
    async with GatewayServer(dsn=config.dsn, config=config):
        await stop.wait()
        log.info("gateway drains")


def _reload(certificate: Certificate) -> None:
    try:
        certificate.load()
        log.info("gateway read its certificate again")
    except GatewayNotStarted as problem:
        log.error("the certificate in use stays: %s", problem)


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def start_in_thread(
    dsn: str, port: int = 0, host: str = "127.0.0.1", *, config: GatewayConfig | None = None
) -> GatewayThread:
    """A gateway for tests and for embedding: `.port`, `.stop()`, or as a context manager."""
    return GatewayThread(config or GatewayConfig(dsn=dsn, host=host, port=port)).start()
