"""What Postgres tells of a stack: the catalog, the workers, the tables, the foreign server and what comes through
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from thermocline.catalog.health.workers import read_workers
from thermocline.catalog.migrate import newest_version, read_version
from thermocline.catalog.profiles import StorageProfile, read_default_warehouse, read_profiles
from thermocline.core.health.health_observation import ForeignServerSeen, ProblemSeen, TableSeen, WorkerSeen
from thermocline.core.names import LAKE_CATALOG, TableName
from thermocline.errors import LakeTableNotServed
from thermocline.runtime import pg
from thermocline.runtime.settings import Settings
from thermocline.seam.objects import SERVER

_QUERIES = pg.load_queries("thermocline.ops", "queries/health.sql")
_CONNECTION_FAILED = "08"
_LAKE_SCHEMA = "thermocline_lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSeen:
    """What one connection read."""

    now: datetime
    version: str = ""
    catalog: ProblemSeen | None = None
    server: ForeignServerSeen | None = None
    workers: tuple[WorkerSeen, ...] = ()
    tables: tuple[TableSeen, ...] = ()
    profiles: tuple[StorageProfile, ...] = ()
    default_warehouse: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripsSeen:
    """Which tables were read through the foreign server, why not, and what the server itself gave."""

    server: ForeignServerSeen
    tables: dict[str, ProblemSeen | None]


def open_limited(settings: Settings, seconds: float, name: str) -> pg.Connection:
    """A connection on which no statement takes longer."""
    assert settings.dsn is not None
    conn = pg.connect(
        settings.dsn,
        autocommit=True,
        application_name=f"thermocline {name}",
        connect_timeout_seconds=settings.connect_timeout_seconds,
    )
    conn.execute(_QUERIES["limit_time"], {"milliseconds": str(int(seconds * 1000))})
    return conn


def read_database(settings: Settings, seconds: float) -> CatalogSeen:
    """The catalog and what it records; `PostgresUnreachable` where there is no Postgres."""
    with open_limited(settings, seconds, "health") as conn:
        pg.check_version(conn)
        version = f"version {conn.info.parameter_status('server_version')}"
        version += f" at {conn.info.host} port {conn.info.port}, database {conn.info.dbname}"
        now = conn.cursor(row_factory=scalar_row).execute("select clock_timestamp()").fetchone()
        assert now is not None
        server = read_server(conn)
        try:
            if problem := why_not_current(conn):
                return CatalogSeen(now=now, version=version, catalog=problem, server=server)
            return CatalogSeen(
                now=now,
                version=version,
                server=server,
                workers=read_workers(conn),
                tables=read_tables(conn),
                profiles=read_profiles(conn),
                default_warehouse=read_default_warehouse(conn),
            )
        except psycopg.errors.InsufficientPrivilege as refused:
            fix = "Run it as the role that ran `thermocline init`, or as one that is a member of it."
            problem = ProblemSeen(sentence=str(refused.diag.message_primary), fix=fix)
            return CatalogSeen(now=now, version=version, catalog=problem, server=server)


def why_not_current(conn: pg.Connection) -> ProblemSeen | None:
    """Why this program cannot use the catalog."""
    version, known = read_version(conn), newest_version()
    if version > known:
        return ProblemSeen(sentence=f"version {version}, newer than this program ({known})", fix="Upgrade thermocline.")
    if version == 0:
        return ProblemSeen(sentence="there is none in this database yet", fix="Run `thermocline init`.")
    if version < known:
        return ProblemSeen(sentence=f"version {version} of {known}", fix="Run `thermocline init`.")
    return None


def read_tables(conn: pg.Connection) -> tuple[TableSeen, ...]:
    return tuple(
        TableSeen(
            id=row.id,
            table=str(TableName(row.schema_name, row.table_name)),
            object_name=row.object_name,
            t=row.t,
            snapshot=row.snapshot,
            lake=row.lake,
            warehouse=row.warehouse,
            registered_at=row.registered_at,
            paused_since=row.paused_since,
            cycle_at=row.cycle_at,
            cycle_said=row.cycle_said,
            failing_since=row.failing_since,
            waiting_rows=row.waiting_rows,
            waiting_since=row.waiting_since,
        )
        for row in pg.rows_by_name(conn).execute(_QUERIES["tables"], {"catalog": LAKE_CATALOG})
    )


def read_server(conn: pg.Connection) -> ForeignServerSeen:
    row = conn.execute(_QUERIES["server"], {"server": SERVER}).fetchone()
    if row is None:
        return ForeignServerSeen(name=SERVER, exists=False)
    host, port, role, has_login = row
    return ForeignServerSeen(name=SERVER, host=host, port=port, role=role, has_login=has_login)


def try_round_trips(
    settings: Settings, server: ForeignServerSeen, tables: Iterable[TableSeen], seconds: float
) -> RoundTripsSeen:
    """Read one row of each of these lakes as Postgres reads it; of one that is empty only the login is tried.

    A failed login ends it: the next table would wait for the same answer.
    """
    seen: dict[str, ProblemSeen | None] = {}
    with open_limited(settings, seconds, "round trip") as conn:
        for table in tables:
            lake = sql.Identifier(_LAKE_SCHEMA, table.object_name)
            statement = sql.SQL(_QUERIES["read_one"]).format(lake=lake, table_id=sql.Literal(table.id))
            problem = _why_not(lambda: conn.execute(statement), seconds)  # noqa: B023 -- called at once
            if problem is not None and problem.is_of_server:
                return RoundTripsSeen(server=replace(server, is_tried=True, problem=problem.sentence), tables=seen)
            seen[table.table] = None if problem is None else ProblemSeen(sentence=problem.sentence, fix=problem.fix)
    return RoundTripsSeen(server=replace(server, is_tried=bool(seen)), tables=seen)


def try_login(settings: Settings, server: ForeignServerSeen, seconds: float) -> ForeignServerSeen:
    """Log in through the server and ask for a table that no lake has; the foreign table is gone with the
    transaction."""
    with open_limited(settings, seconds, "doctor") as conn:

        def ask() -> None:
            with conn.transaction(force_rollback=True):
                conn.execute(sql.SQL(_QUERIES["probe_table"]).format(server=sql.Identifier(SERVER)))
                conn.execute(_QUERIES["probe"])

        problem = _why_not(ask, seconds)
        tried = replace(server, is_tried=True)
        if problem is None:
            return replace(tried, is_no_gateway=True)
        if LakeTableNotServed.code not in problem.text:
            return replace(tried, problem=problem.sentence)
        is_ours = conn.execute(_QUERIES["gateway_is_ours"]).fetchone() == (True,)
        return replace(tried, serves_another=not is_ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    sentence: str
    text: str
    is_of_server: bool
    fix: str | None = None


def _why_not(act: Callable[[], object], seconds: float) -> _Refusal | None:
    try:
        act()
    except psycopg.errors.QueryCanceled:
        sentence = f"no answer within {seconds:g} s"
        return _Refusal(sentence=sentence, text=sentence, is_of_server=True)
    except psycopg.errors.InsufficientPrivilege as problem:
        sentence = problem.diag.message_primary or str(problem)
        return _Refusal(sentence=sentence, text=str(problem), is_of_server=False)
    except psycopg.Error as problem:
        said = problem.diag.message_detail or problem.diag.message_primary or str(problem)
        is_of_server = (problem.sqlstate or _CONNECTION_FAILED).startswith(_CONNECTION_FAILED)
        return _Refusal(sentence=said.strip().splitlines()[0], text=str(problem), is_of_server=is_of_server)
    return None
