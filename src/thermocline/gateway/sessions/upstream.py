"""The connection to Postgres of a relayed session: same server and same encryption as the gateway's own connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.errors import PostgresUnreachable
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.wire.frontend_messages import TERMINATE
from thermocline.gateway.wire.messages import text
from thermocline.runtime import pg

_READ_BYTES = 262_144
_CONNECT_SECONDS = 5
_PROTOCOL_3 = 196_608
_SSL_REQUEST = struct.pack(">ii", 8, 80_877_103)
_CANCEL_CODE = 80_877_102


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresEndpoint:
    """Host, port and database of Postgres, as libpq resolved them; `tls` is `None` without encryption."""

    host: str
    port: int
    database: str
    tls: ssl.SSLContext | None


def read_endpoint(catalog: CatalogReader) -> PostgresEndpoint:
    """Read from a connection of the gateway's own; blocks."""
    with catalog.connection() as conn:
        found = pg.read_endpoint(conn)
    return PostgresEndpoint(host=found.host, port=found.port, database=found.dbname, tls=tls_context(found.tls))


def tls_context(tls: pg.ClientTls) -> ssl.SSLContext | None:
    """libpq's rules: `verify-full` checks name and chain, a root certificate the chain, everything less encrypts."""
    if tls.mode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.mode == "verify-full"
    try:
        if tls.root == "system":
            context.load_default_certs()
        elif tls.root is not None:
            context.load_verify_locations(tls.root)
        elif tls.mode in ("prefer", "require"):
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key, tls.key_password)
    except OSError as problem:
        files = ", ".join(path for path in (tls.root, tls.certificate, tls.key) if path is not None)
        raise PostgresUnreachable(
            f"The gateway cannot connect to Postgres with the TLS files {files}: {problem.strerror or problem}."
        ) from problem
    return context


class UpstreamConnection:
    """The socket to Postgres."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: PostgresEndpoint) -> None:
        self._reader = reader
        self._writer = writer
        self.endpoint = endpoint
        self.key: bytes | None = None

    @classmethod
    async def open(cls, endpoint: PostgresEndpoint) -> UpstreamConnection:
        """Connect, with TLS when the gateway's own connection has it."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                upstream = cls(*await _connect(endpoint), endpoint)
                if endpoint.tls is not None:
                    await upstream._encrypt(endpoint.tls)
                return upstream
        except (OSError, TimeoutError, ssl.SSLError, asyncio.IncompleteReadError) as problem:
            raise PostgresUnreachable(
                f"Postgres on {endpoint.host} port {endpoint.port} cannot be reached by the gateway."
            ) from problem

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        await self.send(_SSL_REQUEST)
        if await self._reader.readexactly(1) != b"S":
            raise ConnectionError("Postgres declines TLS")
        await self._writer.start_tls(context, server_hostname=self.endpoint.host)

    async def start(self, parameters: Sequence[tuple[str, str]]) -> None:
        """Sends the startup message."""
        body = struct.pack(">i", _PROTOCOL_3) + b"".join(text(name) + text(value) for name, value in parameters) + b"\0"
        await self.send(struct.pack(">i", len(body) + 4) + body)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> bytes:
        """Received bytes; empty when Postgres closed the connection."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError:
            return b""

    async def cancel(self) -> None:
        """Send a CancelRequest on a second connection."""
        if self.key is None:
            return
        with contextlib.suppress(PostgresUnreachable, OSError):
            other = await UpstreamConnection.open(self.endpoint)
            try:
                await other.send(struct.pack(">ii", len(self.key) + 8, _CANCEL_CODE) + self.key)
                await other.read()
            finally:
                other.close()

    def close(self) -> None:
        """Send Terminate and close."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write(TERMINATE)
            self._writer.close()


async def _connect(endpoint: PostgresEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.host.startswith("/"):
        return await asyncio.open_unix_connection(f"{endpoint.host}/.s.PGSQL.{endpoint.port}")
    return await asyncio.open_connection(endpoint.host, endpoint.port)
