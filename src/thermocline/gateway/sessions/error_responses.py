"""ErrorResponse messages: SQLSTATE, message, detail and hint of every error."""

from __future__ import annotations

import logging
import re

import psycopg

from thermocline.errors import (
    CandidatesTooLarge,
    GatewayBusy,
    LakeFileUnreadable,
    LakeReadDenied,
    LakeTableNotServed,
    LakeTextUnreadable,
    PostgresUnreachable,
    RowSecurityInLake,
    StatementRefused,
    StatementTooLarge,
    ThermoclineError,
    UnknownSnapshot,
    WholeQueryRefused,
)
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.result_stream import ResultNotReadable
from thermocline.gateway.wire.messages import error_response

log = logging.getLogger(__name__)

_SQLSTATES: tuple[tuple[type[ThermoclineError], str], ...] = (
    (LakeTableNotServed, "42P01"),
    (LakeReadDenied, "42501"),
    (RowSecurityInLake, "42501"),
    (UnknownSnapshot, "55000"),
    (LakeTextUnreadable, "22021"),
    (LakeFileUnreadable, "58030"),
    (StatementRefused, "0A000"),
    (WholeQueryRefused, "0A000"),
    (GatewayBusy, "53000"),
    (CandidatesTooLarge, "54000"),
    (StatementTooLarge, "53200"),
    (PostgresUnreachable, "58000"),
)


class SessionError(Exception):
    """An error of the session itself, with its SQLSTATE."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def render_error(problem: Exception) -> bytes:
    """The ErrorResponse of an exception; an unexpected one is logged and reported as an internal error."""
    match problem:
        case SessionError():
            return _error(problem.sqlstate, str(problem))
        case Cancelled():
            return _error("57014", "canceling statement due to user request")
        case ResultNotReadable():
            return _error("55000", "portal cannot be run", detail="Its result was closed before its last row.")
        case ThermoclineError():
            state = next((state for kind, state in _SQLSTATES if isinstance(problem, kind)), "58000")
            return _error(state, f"{problem.code}: {problem.message}", hint=problem.hint)
        case MemoryError():
            return _error(
                "53200", "the gateway's memory limit is reached", hint="Ask for less at once, or raise the limit."
            )
        case psycopg.Error():
            primary = problem.diag.message_primary or str(problem).strip() or "Postgres cannot be reached"
            # libpq gives no SQLSTATE to a connection that it lost.
            lost = "08006" if isinstance(problem, psycopg.OperationalError) else "58000"
            return _error(problem.sqlstate or lost, primary, detail=_column_of(problem))
    log.error("internal error", exc_info=problem)
    return _error("XX000", f"internal error of the gateway: {type(problem).__name__}")


_COPIED_COLUMN = re.compile(r"^COPY \S+, line \d+, column (.+?)(?:: |$)", re.MULTILINE)


def _column_of(problem: psycopg.Error) -> str:
    """The column whose value Postgres rejected in COPY; its own message names the temporary table."""
    found = _COPIED_COLUMN.search(problem.diag.context or "")
    return f'The value is in column "{found[1]}" of the lake table.' if found else ""


def _error(sqlstate: str, message: str, hint: str = "", detail: str = "") -> bytes:
    return error_response(severity="ERROR", sqlstate=sqlstate, message=message, hint=hint, detail=detail)


def render_fatal(sqlstate: str, message: str) -> bytes:
    """The last message of a connection."""
    return error_response(severity="FATAL", sqlstate=sqlstate, message=message)
