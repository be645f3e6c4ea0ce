"""A gateway in a process of its own, as it runs in use: what ends it ends no test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from thermocline.runtime.postgres_server import free_port


@dataclass(frozen=True)
class GatewayProgram:
    """A running `thermocline gateway`."""

    process: subprocess.Popen[bytes]
    dsn: str
    port: int
    http_port: int

    def executors(self) -> list[psutil.Process]:
        """Its executors: the children of the process that forks them."""
        children = psutil.Process(self.process.pid).children()
        return [executor for zygote in children for executor in zygote.children()]


@contextmanager
def start_program(dsn: str, **settings: str) -> Iterator[GatewayProgram]:
    """Start it with these settings of the gateway; stop it at the end."""
    port, http_port = free_port(), free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("THERMOCLINE_")},
        "THERMOCLINE_DSN": dsn,
        "THERMOCLINE_GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "THERMOCLINE_GATEWAY_HTTP_LISTEN": f"127.0.0.1:{http_port}",
        **{f"THERMOCLINE_GATEWAY_{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen([sys.executable, "-m", "thermocline", "gateway"], env=environment)
    try:
        _wait_for(port)
        yield GatewayProgram(process, dsn, port, http_port)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the gateway did not start")
