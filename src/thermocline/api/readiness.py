"""Whether this process could serve a request now."""

from __future__ import annotations

import socket

from thermocline.catalog.migrate import check_version_current, read_version
from thermocline.errors import ThermoclineError
from thermocline.runtime import pg
from thermocline.runtime.settings import Settings, split_address


def why_not_ready(settings: Settings) -> str | None:
    """The first dependency that cannot be reached, as a sentence; None when all can."""
    if settings.dsn is None:
        return "No Postgres is configured."
    try:
        with pg.connect(
            settings.dsn,
            application_name="thermocline readyz",
            connect_timeout_seconds=settings.connect_timeout_seconds,
        ) as conn:
            version = read_version(conn)
            if version:
                check_version_current(conn)
    except ThermoclineError as problem:
        return str(problem)
    if version == 0:
        return "The catalog does not exist yet; run `thermocline init`."
    host, port = split_address(settings.gateway_listen)
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError as problem:
        return f"The gateway at {host}:{port} cannot be reached: {problem.strerror or problem}."
    return None
