"""Connections to Postgres: opened one way, with the same session settings everywhere, and named SQL read from .sql
files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import namedtuple_row

from thermocline.core.names import TableName
from thermocline.errors import BadDsn, PostgresFailed, PostgresUnreachable, PostgresVersionUnsupported

CONNECT_TIMEOUT_SECONDS = 5
OLDEST_MAJOR, NEWEST_MAJOR = 14, 18

SESSION_SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
"""What fixes Postgres' text form, so that the same value gives the same text on every connection."""

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a connection leads, as libpq resolved it: for drivers that are not libpq."""

    host: str
    port: int
    dbname: str
    user: str
    password: str = field(repr=False)


def connect(
    dsn: str,
    *,
    autocommit: bool = False,
    application_name: str = "thermocline",
    connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
) -> Connection:
    """An open connection in UTC, ISO and UTF-8; a failure names host, port and database, never the password."""
    parts = _parse(dsn)
    try:
        # Given as keywords so that a DSN's own application_name loses to ours.
        conn = psycopg.connect(
            dsn, autocommit=True, application_name=application_name, connect_timeout=connect_timeout_seconds
        )
    except psycopg.OperationalError as problem:
        raise PostgresUnreachable(
            f"Postgres at {_render_endpoint(parts)} cannot be reached: {_reason(problem)}."
        ) from None
    names, values = list(SESSION_SETTINGS), list(SESSION_SETTINGS.values())
    conn.execute(
        "select pg_catalog.set_config(n, v, false) from unnest(%s::text[], %s::text[]) s(n, v)", (names, values)
    )
    conn.autocommit = autocommit
    return conn


def check_version(conn: psycopg.Connection[Any]) -> int:
    """The server's major version; refuses what is older than 14 or newer than 18."""
    major = conn.info.server_version // 10000
    if not OLDEST_MAJOR <= major <= NEWEST_MAJOR:
        raise PostgresVersionUnsupported(
            f"Postgres {major} on {conn.info.host} port {conn.info.port} is not supported; {OLDEST_MAJOR} to "
            f"{NEWEST_MAJOR} are."
        )
    return major


def read_endpoint(conn: psycopg.Connection[Any]) -> Endpoint:
    """Host, port, database, role and password of an open connection, wherever libpq found them (DSN, environment,
    passfile)."""
    info = conn.info
    return Endpoint(host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password)


def with_database(dsn: str, dbname: str) -> str:
    """The same DSN, leading to another database of the same server."""
    _parse(dsn)
    return make_conninfo(dsn, dbname=dbname)


def without_password(dsn: str) -> str:
    """The DSN as it may be shown."""
    return make_conninfo(
        "", **{name: value for name, value in _parse(dsn).items() if name not in ("password", "sslpassword")}
    )


def rows_by_name(conn: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor whose rows have their columns as attributes: `row.lo`, not `row[3]`."""
    return conn.cursor(row_factory=namedtuple_row)


def table_identifier(name: TableName) -> sql.Identifier:
    """The qualified name of a relation, quoted where it must be."""
    return sql.Identifier(name.schema, name.table)


def load_queries(package: str, file: str) -> dict[str, str]:
    """The statements of a .sql file in a package, by the names their `-- name: x` lines give them."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    pieces = re.split(r"^-- name:[ \t]*(\w+)[ \t]*\n", text, flags=re.MULTILINE)
    names, bodies = pieces[1::2], pieces[2::2]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled or not names:
        raise ValueError(
            f"{package}/{file}: " + (f"names given twice: {sorted(doubled)}" if doubled else "no `-- name:` line")
        )
    queries = {name: body.strip() for name, body in zip(names, bodies, strict=True)}
    if mixed := [name for name, body in queries.items() if is_mixed(body)]:
        raise ValueError(f"{package}/{file}: {mixed} have places and placeholders; put the values in by sql.Literal")
    return queries


def is_mixed(template: str) -> bool:
    """Whether a template has both places for names and placeholders for values.

    A name may hold a `%`, and where parameters are given, psycopg takes it for a placeholder. So a statement is either
    composed, its values by `sql.Literal`, or has parameters.
    """
    return re.search(r"\{[a-z_]*\}", template) is not None and re.search(r"%[(sbt]", template) is not None


def postgres_failed(problem: psycopg.Error) -> PostgresFailed:
    """An error of Postgres that nothing mapped, as one sentence."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return PostgresFailed(f"Postgres reported: {lines[0]}.")


def _parse(dsn: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's message quotes parts of the text, and a part may be the password.
        raise BadDsn from None


def _render_endpoint(parts: Mapping[str, Any]) -> str:
    known = {opt.keyword.decode(): (opt.val or b"").decode() for opt in psycopg.pq.Conninfo.get_defaults()}
    host = parts.get("host") or parts.get("hostaddr") or known.get("host") or "the local socket"
    port = parts.get("port") or known.get("port") or "5432"
    user = parts.get("user") or known.get("user")
    return f"host {host}, port {port}, database {parts.get('dbname') or known.get('dbname') or user}, role {user}"


def _reason(problem: psycopg.OperationalError) -> str:
    first = next((line.strip() for line in str(problem).splitlines() if line.strip()), "no reason given")
    return first.rsplit("failed: ", 1)[-1].removeprefix("FATAL:").strip().rstrip(".")
