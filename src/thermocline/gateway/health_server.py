"""HTTP for probes and Prometheus: `/healthz`, `/readyz` and `/metrics`, served by uvicorn in a thread of its own.

The thread has its own event loop: metrics are served while the gateway's loop is busy, and uvicorn installs no signal
handlers outside the main thread. `/healthz` waits for a turn of the gateway's loop, so a loop that hangs is not
reported as alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import uvicorn
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from thermocline.errors import GatewayNotStarted

_METHODS = ["GET", "HEAD"]
_LOOP_SECONDS = 5.0
_IDLE_SECONDS = 5
_SHUTDOWN_SECONDS = 5
_MAX_HEAD_BYTES = 16_384
_POLL_SECONDS = 0.01

WhyNotReady = Callable[[], str | None]


class HealthServer:
    """The HTTP server of one gateway."""

    def __init__(
        self,
        host: str,
        port: int,
        why_not_ready: WhyNotReady,
        gateway_loop: asyncio.AbstractEventLoop,
        *,
        loop_seconds: float = _LOOP_SECONDS,
    ) -> None:
        self._host = host
        self.port = port
        config = uvicorn.Config(
            make_health_app(why_not_ready, gateway_loop, loop_seconds=loop_seconds),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen and serve; blocks until the server accepts connections."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listener = socket.create_server((self._host, self.port), family=family, backlog=128)
        except OSError as problem:
            reason = problem.strerror or problem
            raise GatewayNotStarted(f"The gateway cannot listen on {self._host}:{self.port}: {reason}.") from problem
        self.port = int(listener.getsockname()[1])
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="gateway-health", daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stop accepting connections and wait for open requests; blocks."""
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join()


def make_health_app(
    why_not_ready: WhyNotReady, gateway_loop: asyncio.AbstractEventLoop, *, loop_seconds: float
) -> FastAPI:
    """The application: three paths, GET and HEAD only."""

    async def report_status(request: Request, problem: Exception) -> Response:
        status = 405 if getattr(problem, "status_code", 404) == 405 else 404
        return _render_status(status, {"status": "GET only" if status == 405 else "no such path"})

    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={404: report_status, 405: report_status},
    )

    @app.api_route("/healthz", methods=_METHODS)
    async def healthz() -> Response:
        if not await _has_turned(gateway_loop, loop_seconds):
            reason = f"The gateway's event loop did not respond within {loop_seconds:g} seconds."
            return _render_status(503, {"status": "not alive", "reason": reason})
        return _render_status(200, {"status": "alive"})

    @app.api_route("/readyz", methods=_METHODS)
    def readyz() -> Response:
        reason = why_not_ready()
        if reason is not None:
            return _render_status(503, {"status": "not ready", "reason": reason})
        return _render_status(200, {"status": "ready"})

    @app.api_route("/metrics", methods=_METHODS)
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return app


async def _has_turned(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    """Whether another thread's event loop runs a callback within the time."""
    turned: Future[None] = Future()
    try:
        loop.call_soon_threadsafe(_complete, turned)
        async with asyncio.timeout(seconds):
            await asyncio.wrap_future(turned)
    except (TimeoutError, RuntimeError):  # too late, or the loop is closed
        return False
    return True


def _complete(turned: Future[None]) -> None:
    with contextlib.suppress(Exception):  # the waiter gave up
        turned.set_result(None)


def _render_status(status: int, body: dict[str, str]) -> Response:
    return Response(json.dumps(body), status_code=status, media_type="application/json")
