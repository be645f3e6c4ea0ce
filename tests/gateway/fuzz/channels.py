"""The ways in which a client sends a statement, and all that it receives for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from psycopg import generators, pq
from tests.gateway.fuzz.pieces import Rendered, render
from tests.gateway.fuzz.statements import Case

PYTHON_ENCODINGS = {"UTF8": "utf-8", "LATIN1": "latin-1", "SQL_ASCII": "utf-8", "WIN1252": "cp1252", "EUC_JP": "euc_jp"}
_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY, pq.ExecStatus.COPY_OUT)
_NAME = b"fuzzed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that a client receives: the fields and rows and the command tag, or the SQLSTATE."""

    state: bytes = b""
    message: str = field(default="", compare=False)
    tag: bytes = b""
    fields: tuple[tuple[Any, ...], ...] = ()
    rows: tuple[tuple[bytes | None, ...], ...] = ()

    def unordered(self) -> Answer:
        return replace(self, rows=tuple(sorted(self.rows, key=repr)))

    def __str__(self) -> str:
        if self.state or not self.tag:
            return f"error {self.state.decode()} {self.message}".strip()
        return f"{self.tag.decode()} {list(self.fields)} {list(self.rows)[:6]}"


def ask(conn: psycopg.Connection[Any], case: Case) -> Answer:
    """The answer of one session, which has the case's settings."""
    rendered = render(case.statement)
    statement = rendered.sql.encode(PYTHON_ENCODINGS[case.settings["client_encoding"]], "replace")
    try:
        match case.channel:
            case "simple":
                return _read(conn, conn.pgconn.exec_(statement))
            case "extended":
                return _ask_extended(conn, statement, rendered, case)
            case "prepared":
                return _ask_prepared(conn, statement, rendered, case)
            case "transaction":
                conn.pgconn.exec_(b"begin isolation level repeatable read")
                return _ask_extended(conn, statement, rendered, case)
            case "cursor":
                asked = (b"begin", b"declare %s cursor for %s" % (_NAME, statement), b"fetch 7 from %s" % _NAME)
                return _ask_each(conn, *asked, b"fetch all from %s" % _NAME)
            case "copy":
                conn.pgconn.send_query(b"copy (%s) to stdout" % statement)
                return _read(conn, conn.wait(generators.execute(conn.pgconn))[-1])
            case "execute":
                return _ask_each(conn, b"prepare %s as %s" % (_NAME, statement), b"execute %s" % _NAME)
    finally:
        _tidy(conn, case)


def _ask_each(conn: psycopg.Connection[Any], *statements: bytes) -> Answer:
    """The rows of all statements, up to the first that fails."""
    whole = Answer()
    for statement in statements:
        answer = _read(conn, conn.pgconn.exec_(statement))
        if answer.state:
            return answer
        whole = replace(answer, rows=(*whole.rows, *answer.rows))
    return whole


def _ask_extended(conn: psycopg.Connection[Any], statement: bytes, rendered: Rendered, case: Case) -> Answer:
    result = conn.pgconn.exec_params(
        statement,
        [argument.data for argument in rendered.arguments],
        param_types=[argument.type_oid for argument in rendered.arguments],
        param_formats=[int(argument.is_binary) for argument in rendered.arguments],
        result_format=int(case.is_binary),
    )
    return _read(conn, result)


def _ask_prepared(conn: psycopg.Connection[Any], statement: bytes, rendered: Rendered, case: Case) -> Answer:
    parsed = _read(conn, conn.pgconn.prepare(_NAME, statement, [argument.type_oid for argument in rendered.arguments]))
    if parsed.state:
        return parsed
    # libpq's own describe_prepared holds the interpreter's lock, and the gateway runs in this process.
    conn.pgconn.send_describe_prepared(_NAME)
    (described,) = conn.wait(generators.execute(conn.pgconn))
    parameters = tuple(described.param_type(at) for at in range(described.nparams))
    values: list[Any] = [argument.data for argument in rendered.arguments]
    answer = Answer()
    for _ in range(2):
        answer = _read(
            conn,
            conn.pgconn.exec_prepared(
                _NAME,
                values,
                param_formats=[int(argument.is_binary) for argument in rendered.arguments],
                result_format=int(case.is_binary),
            ),
        )
    return replace(answer, fields=(*answer.fields, parameters))


def _read(conn: psycopg.Connection[Any], result: pq.abc.PGresult) -> Answer:
    if result.status not in _GOOD:
        state = result.error_field(pq.DiagnosticField.SQLSTATE) or b"?"
        told = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        return Answer(state=state, message=told.decode("utf-8", "replace")[:200])
    if result.status == pq.ExecStatus.COPY_OUT:
        return _read_copy(conn)
    columns = range(result.nfields)
    return Answer(
        tag=result.command_status or b"",
        fields=tuple(
            (result.fname(at), result.ftype(at), result.fmod(at), result.fsize(at), result.fformat(at))
            for at in columns
        ),
        rows=tuple(tuple(result.get_value(row, at) for at in columns) for row in range(result.ntuples)),
    )


def _read_copy(conn: psycopg.Connection[Any]) -> Answer:
    lines = []
    try:
        while isinstance(data := conn.wait(generators.copy_from(conn.pgconn)), memoryview):
            lines.append((bytes(data),))
    except psycopg.Error as problem:
        return Answer(state=(problem.sqlstate or "?").encode(), message=str(problem)[:200])
    return replace(_read(conn, data), rows=tuple(lines))


def _tidy(conn: psycopg.Connection[Any], case: Case) -> None:
    """Leave no transaction, no copy and no prepared statement behind."""
    if conn.pgconn.status != pq.ConnStatus.OK:
        return
    if conn.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        conn.pgconn.exec_(b"rollback")
    if case.channel in ("prepared", "execute"):
        conn.pgconn.exec_(b"deallocate all")
