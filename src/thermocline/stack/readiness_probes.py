"""Whether a process of the stack is ready: what it says of itself, or a reason."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from thermocline.catalog.requests import is_worker_alive
from thermocline.errors import PostgresUnreachable
from thermocline.runtime import pg

_TIMEOUT_SECONDS = 5


def why_not_ready(url: str) -> str | None:
    """The reason that a probe's URL gives; None when it answers 200."""
    try:
        urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as answer:
        with answer:
            body = answer.read()
        return _reason(body) or f"{url} answers {answer.code}."
    except OSError as problem:
        return f"{url} cannot be reached: {problem}."
    return None


def why_not_connected(dsn: str, pid: int) -> str | None:
    """Whether the worker with this pid is at work in the database."""
    try:
        with pg.connect(dsn, autocommit=True, application_name="thermocline up") as conn:
            return None if is_worker_alive(conn, pid) else "It has not connected to Postgres yet."
    except PostgresUnreachable as problem:
        return str(problem)


def _reason(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        return None
