"""Serves the API on a loopback address."""

from __future__ import annotations

import ipaddress
import signal

import uvicorn

from thermocline.api.app import make_app
from thermocline.errors import NotLoopback
from thermocline.runtime.postgres_server import check_port_free
from thermocline.runtime.settings import Settings, split_address


def run_serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    host, port = split_address(settings.http_listen)
    check_loopback(host)
    check_port_free(port, host)
    config = uvicorn.Config(
        make_app(settings), host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=5
    )
    # uvicorn raises the signal that stopped it once more when it has drained; a clean stop is exit code 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    uvicorn.Server(config).run()


def check_loopback(host: str) -> None:
    """Refuse an address that other machines can reach."""
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise NotLoopback(
            f"The HTTP API has no authentication yet and listens on loopback addresses only, not on {host}."
        )
