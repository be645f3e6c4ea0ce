"""The gateway's health and metrics over HTTP: served by a thread of its own, truthful about the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from thermocline.errors import GatewayNotStarted
from thermocline.gateway.health_server import HealthServer

pytestmark = pytest.mark.gateway
BUSY_SECONDS = 1.0


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def served(loop: asyncio.AbstractEventLoop, reason: str | None = None) -> Iterator[int]:
    server = HealthServer("127.0.0.1", 0, lambda: reason, loop, loop_seconds=BUSY_SECONDS / 4)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=10) as response:
            return response.status, response.read().decode()
    except HTTPError as problem:
        with problem:
            return problem.code, problem.read().decode()


def test_paths_and_methods_have_their_status_codes() -> None:
    with running_loop() as loop, served(loop) as port:
        assert fetch(port, "/healthz") == (200, '{"status": "alive"}')
        assert fetch(port, "/readyz?verbose=1") == (200, '{"status": "ready"}')
        assert fetch(port, "/healthz", "HEAD") == (200, "")
        assert fetch(port, "/nothing") == (404, '{"status": "no such path"}')
        assert fetch(port, "/metrics", "POST") == (405, '{"status": "GET only"}')
        status, text = fetch(port, "/metrics")
        assert status == 200
        assert "# TYPE thermocline_gateway_query_seconds histogram" in text


def test_a_gateway_that_is_not_ready_says_why() -> None:
    with running_loop() as loop, served(loop, "Postgres is away.") as port:
        status, body = fetch(port, "/readyz")
        assert (status, json.loads(body)) == (503, {"status": "not ready", "reason": "Postgres is away."})


def test_a_loop_that_hangs_is_not_alive_and_its_metrics_are_still_served() -> None:
    with running_loop() as loop, served(loop) as port:
        loop.call_soon_threadsafe(time.sleep, BUSY_SECONDS)
        status, body = fetch(port, "/healthz")
        assert status == 503
        assert "event loop did not respond" in body
        assert fetch(port, "/metrics")[0] == 200
        time.sleep(BUSY_SECONDS)
        assert fetch(port, "/healthz") == (200, '{"status": "alive"}')


def test_a_port_that_is_taken_is_named() -> None:
    with running_loop() as loop, served(loop) as port:
        other = HealthServer("127.0.0.1", port, lambda: None, loop)
        with pytest.raises(GatewayNotStarted, match=f"127.0.0.1:{port}"):
            other.start()
