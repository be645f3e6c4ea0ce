"""Connections to Postgres: opened one way, with the same session settings everywhere, and named SQL read from .sql
files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import namedtuple_row

from thermocline.core.names import TableName
from thermocline.errors import BadDsn, PostgresFailed, PostgresUnreachable, PostgresVersionUnsupported

CONNECT_TIMEOUT_SECONDS = 5
OLDEST_MAJOR, NEWEST_MAJOR = 14, 18

PINNED_PATH = "pg_catalog, pg_temp"
"""Objects of ours are named with their schema; nothing that a user made answers to a name of Postgres' own. Temporary
relations come last: a trigger of the user's that fires in our session could make some."""

TEXT_SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
"""What fixes Postgres' text form, so that the same value gives the same text on every connection."""

SESSION_SETTINGS: Mapping[str, str] = {"search_path": PINNED_PATH, **TEXT_SETTINGS}
"""The settings of every session of ours, whatever driver opens it."""

Connection = psycopg.Connection[tuple[Any, ...]]


TlsMode = Literal["disable", "prefer", "require", "verify-ca", "verify-full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """How a connection is encrypted, with the files that libpq used, its own default ones included.

    `root` is a file, or `system`; a certificate comes with its key.
    """

    mode: TlsMode = "disable"
    root: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    is_direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a connection leads, as libpq resolved it: for drivers that are not libpq."""

    host: str
    port: int
    dbname: str
    user: str
    password: str = field(repr=False)
    tls: ClientTls = ClientTls()


def connect(
    dsn: str,
    *,
    autocommit: bool = False,
    application_name: str = "thermocline",
    connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
) -> Connection:
    """An open connection in UTC, ISO and UTF-8 that finds unqualified names in pg_catalog alone; a failure names host,
    port and database, never the password."""
    return _connect(dsn, SESSION_SETTINGS, autocommit, application_name, connect_timeout_seconds)


def connect_as_typed(
    dsn: str,
    *,
    autocommit: bool = False,
    application_name: str = "thermocline",
    connect_timeout_seconds: int = CONNECT_TIMEOUT_SECONDS,
) -> Connection:
    """The same with the login's own search_path, for names and statements that a person typed. A statement of ours
    qualifies everything there, functions and operators too: anybody's may come first in that path."""
    return _connect(dsn, TEXT_SETTINGS, autocommit, application_name, connect_timeout_seconds)


def _connect(
    dsn: str,
    settings: Mapping[str, str],
    autocommit: bool,
    application_name: str,
    connect_timeout_seconds: int,
) -> Connection:
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
    conn.execute(render_settings(settings))
    conn.autocommit = autocommit
    return conn


def pinned_dsn(dsn: str) -> str:
    """The DSN of a connection that is pinned from its first statement on, for drivers that read Postgres' catalogs as
    they connect."""
    given = _parse(dsn).get("options") or os.environ.get("PGOPTIONS", "")
    return make_conninfo(dsn, options=f"{given} -c search_path={PINNED_PATH.replace(' ', '')}".strip())


def render_settings(settings: Mapping[str, str]) -> sql.Composed:
    """One statement that sets them for the session; it calls what it names, whatever the search_path is before it."""
    calls = (
        sql.SQL("pg_catalog.set_config({}::pg_catalog.text, {}::pg_catalog.text, false)").format(name, value)
        for name, value in settings.items()
    )
    return sql.SQL("select {}").format(sql.SQL(", ").join(calls))


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
    """Host, port, database, role, password and encryption of an open connection, wherever libpq found them (DSN,
    environment, service file, passfile, files in ~/.postgresql)."""
    info = conn.info
    return Endpoint(
        host=info.host,
        port=info.port,
        dbname=info.dbname,
        user=info.user,
        password=info.password,
        tls=_read_tls(conn.pgconn),
    )


def _read_tls(pgconn: psycopg.pq.abc.PGconn) -> ClientTls:
    if not pgconn.ssl_in_use:
        return ClientTls()
    given = {option.keyword.decode(): option.val.decode() for option in pgconn.info if option.val}
    mode = given.get("sslmode", "prefer")
    root = given.get("sslrootcert") or _default_file("root.crt")
    if root not in (None, "system") and not Path(root).exists():
        root = None
    if root is None and mode in ("verify-ca", "verify-full"):
        # The connection is older than the loss of the file: libpq would open no other one.
        raise PostgresUnreachable(
            f"Postgres at host {pgconn.host.decode()}, port {pgconn.port.decode()} cannot be verified: the root "
            f"certificate {given.get('sslrootcert') or '~/.postgresql/root.crt'} does not exist, and sslmode is {mode}."
        )
    certificate = given.get("sslcert") or _default_file("postgresql.crt")
    key = given.get("sslkey") or _default_file("postgresql.key")
    has_certificate = bool(certificate and key) and given.get("sslcertmode") != "disable"
    return ClientTls(
        mode=_tls_mode(mode, has_root=root is not None),
        root=root,
        certificate=certificate if has_certificate else None,
        key=key if has_certificate else None,
        key_password=given.get("sslpassword"),
        is_direct=given.get("sslnegotiation") == "direct",
    )


def _tls_mode(mode: str, *, has_root: bool) -> TlsMode:
    """What libpq does on a connection that is encrypted: a root certificate is verified in every mode."""
    if mode == "verify-full":
        return "verify-full"
    if has_root:
        return "verify-ca"
    return "require" if mode == "require" else "prefer"


def _default_file(name: str) -> str | None:
    path = Path("~/.postgresql").expanduser() / name
    return str(path) if path.exists() else None


def with_database(dsn: str, dbname: str) -> str:
    """The same DSN, leading to another database of the same server."""
    _parse(dsn)
    return make_conninfo(dsn, dbname=dbname)


def without_password(dsn: str) -> str:
    """The DSN as it may be shown."""
    return make_conninfo(
        "", **{name: value for name, value in _parse(dsn).items() if name not in ("password", "sslpassword")}
    )


def libpq_variables() -> frozenset[str]:
    """The environment variables that libpq reads connection parameters from."""
    return frozenset(option.envvar.decode() for option in psycopg.pq.Conninfo.get_defaults() if option.envvar)


def libpq_environment(endpoint: Endpoint) -> dict[str, str]:
    """libpq's variables for another machine, with the password wherever it came from; files that they or the DSN name
    must be there too."""
    known = {name: os.environ[name] for name in libpq_variables() if name in os.environ}
    return {**known, "PGPASSWORD": endpoint.password} if endpoint.password else known


def forget_libpq_variables() -> None:
    """From here on a DSN alone says where this process connects: PGPASSWORD, for example, would win over the passfile
    that a stack's DSN names."""
    for name in libpq_variables():
        os.environ.pop(name, None)


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
