"""Is the gateway alive, could it answer, and what has it counted: three paths over plain HTTP, for probes and
Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from thermocline.errors import GatewayNotStarted

_READ_SECONDS = 5
_MAX_HEAD_BYTES = 16_384
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class HealthServer:
    """Answers one request per connection."""

    def __init__(self, host: str, port: int, why_not_ready: Callable[[], str | None]) -> None:
        self._host = host
        self.port = port
        self._why_not_ready = why_not_ready
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self.port, limit=_MAX_HEAD_BYTES)
        except OSError as problem:
            reason = problem.strerror or problem
            raise GatewayNotStarted(f"The gateway cannot listen on {self._host}:{self.port}: {reason}.") from problem
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head))
            await writer.drain()
        writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, {"status": "GET only"})
        match path:
            case b"/healthz":
                return _response(200, {"status": "alive"})
            case b"/readyz":
                reason = await asyncio.get_running_loop().run_in_executor(None, self._why_not_ready)
                return (
                    _response(200, {"status": "ready"})
                    if reason is None
                    else _response(503, {"status": "not ready", "reason": reason})
                )
            case b"/metrics":
                return _rendered(200, generate_latest(), CONTENT_TYPE_LATEST)
        return _response(404, {"status": "no such path"})


def _response(status: int, body: dict[str, str]) -> bytes:
    return _rendered(status, json.dumps(body).encode(), "application/json")


def _rendered(status: int, body: bytes, kind: str) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: "
        f"{len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
