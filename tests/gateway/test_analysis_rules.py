"""The rules by which Postgres analyses a client's statement: on the client's own connection, leaving nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.gateway.whole_lake import outcome, person, raw
from tests.twin import Spanning

from thermocline.gateway import metrics
from thermocline.gateway.analysis import analysis_queries
from thermocline.runtime.postgres_server import PostgresServer

COUNT = "select count(*) from events where id < 10"


def _analysed(outcome_name: str = "analysed") -> int:
    return int(metrics.ANALYSES.labels(outcome_name)._value.get())


def _by_duckdb() -> int:
    return int(metrics.WHOLE_QUERIES.labels("duckdb")._value.get())


@contextmanager
def _notices(conn: psycopg.Connection[Any]) -> Iterator[list[str]]:
    heard: list[str] = []
    conn.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    yield heard


def test_a_statement_is_analysed_once_for_all_sessions_of_a_role(lake: Spanning) -> None:
    statement = "select count(*) from events where id < 10 and shop <> 77"
    before = _analysed()
    for _ in range(3):
        with person(lake, engine="duckdb") as conn:
            assert conn.execute(statement.encode()).fetchone() == (9,)
            assert conn.execute(statement.encode()).fetchone() == (9,)
    assert _analysed() - before == 1


def test_time_zone_path_and_parameter_types_are_read_anew(lake: Spanning) -> None:
    statement = "select count(*) from events where ts < '2026-01-02 00:00'"
    with person(lake) as conn:
        for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
            for side in (conn, lake.twin):
                side.execute(f"set timezone = '{zone}'".encode())
            assert outcome(conn, statement) == outcome(lake.twin, statement)
        lake.twin.execute("set timezone = 'UTC'")
        with lake.session(autocommit=True) as direct:
            for side in (conn, direct):
                side.execute("set search_path = public")
            assert outcome(conn, COUNT) == outcome(direct, COUNT)


def test_nothing_is_left_of_an_analysis(lake: Spanning) -> None:
    shown = (
        "search_path",
        "timezone",
        "datestyle",
        "intervalstyle",
        "statement_timeout",
        "lock_timeout",
        "client_min_messages",
        "bytea_output",
    )
    with person(lake, engine="duckdb") as conn, _notices(conn) as heard:
        before = [conn.execute(f"show {name}".encode()).fetchone() for name in shown]
        for begin, end in (("select 1", "select 1"), ("begin", "commit")):
            conn.execute(begin.encode())
            conn.execute(f"select count(*) from events where kind <> '{begin}'".encode())
            assert [conn.execute(f"show {name}".encode()).fetchone() for name in shown] == before
            assert conn.execute("select count(*) from pg_proc where proname like 'thermocline\\_%'").fetchone() == (0,)
            assert conn.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
            conn.execute(end.encode())
        assert heard == []
        conn.execute("begin")
        conn.execute("select count(*) from events where kind <> 'once more'")
        with pytest.raises(psycopg.Error, match="does not exist"):
            conn.execute("rollback to savepoint thermocline")
        conn.execute("rollback")


def test_an_analysis_in_a_transaction_is_no_write_and_a_write_is_seen(lake: Spanning) -> None:
    insert = "insert into events (id, ts, day, shop, qty) values (9500, '2026-04-20 02:00+00', '2026-04-20', 1, 1)"
    for begin in ("begin", "begin isolation level repeatable read"):
        with person(lake, engine="duckdb") as conn:
            conn.execute(begin.encode())
            for number in range(3):
                statement = f"select count(*) from events where id > 9400 and qty <> {number * 1000 + len(begin)}"
                assert conn.execute(statement.encode()).fetchone() == (0,)
            conn.execute("set local thermocline.engine = auto")
            conn.execute(insert.encode())
            assert conn.execute("select count(*) from events where id > 9400 and qty <> 0").fetchone() == (1,)
            assert conn.execute(statement.encode()).fetchone() == (1,)
            conn.execute("rollback")
            assert conn.execute(statement.encode()).fetchone() == (0,)


def test_a_read_only_transaction_uses_what_is_known_and_leaves_the_rest_to_postgres(lake: Spanning) -> None:
    known, unknown = (f"select count(*) from events where id < 10 and shop <> {number}" for number in (601, 602))
    with person(lake, engine="duckdb") as conn:
        conn.execute(known.encode())
        conn.execute("begin read only")
        assert conn.execute(known.encode()).fetchone() == (9,)
        conn.execute("set local thermocline.engine = auto")
        before = _by_duckdb()
        assert conn.execute(unknown.encode()).fetchone() == (9,)
        assert _by_duckdb() == before
        conn.execute("commit")
        conn.execute("set default_transaction_read_only = on; set thermocline.engine = auto")
        assert conn.execute(unknown.encode()).fetchone() == (9,)


def test_literals_of_the_clock_and_too_many_parameters_are_postgres_to_answer(lake: Spanning) -> None:
    with person(lake) as conn, _notices(conn) as heard:
        before = _analysed()
        for words in ("ts < 'now'", "day <= date 'today'", r"kind = E'bu\x79'"):
            conn.execute(f"explain select count(*) from events where {words}".encode())
        holders = ", ".join(f"${at + 1}" for at in range(101))
        result = conn.pgconn.exec_params(f"select count(*) from events where id in ({holders})".encode(), [b"1"] * 101)
        assert result.get_value(0, 0) == b"1"
        assert heard == ["engine: postgres, because a literal such as 'now' is left to Postgres"] * 3
        assert _analysed() == before


def test_a_changed_catalog_is_noticed(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    owner.execute("create schema mine")
    path = "mine, public_all, public"
    joined = "select count(*) from events join extra on extra.n = events.shop where extra.n > 1.5"
    try:
        with person(lake, path=path) as conn:
            assert conn.execute(COUNT.encode()).fetchone() == (9,)
            owner.execute("create table mine.events (id integer)")
            assert conn.execute(COUNT.encode()).fetchone() == (0,)
            owner.execute("drop table mine.events")
            assert conn.execute(COUNT.encode()).fetchone() == (9,)
            owner.execute("create table mine.extra (n integer); insert into mine.extra values (1), (2)")
            expected = lake.twin.execute("select count(*) from events where shop = 2").fetchone()
            assert conn.execute(joined.encode()).fetchone() == expected
            owner.execute("alter table mine.extra alter n type numeric(4, 2) using n + 0.75")
            assert conn.execute(joined.encode()).fetchone() == (0,)
            owner.execute("alter table mine.extra alter n type text using '2'")
            with pytest.raises(psycopg.errors.UndefinedFunction):
                conn.execute(joined.encode())
    finally:
        owner.execute("drop schema mine cascade")


def test_a_temporary_table_or_type_of_the_session_is_meant_there_alone(lake: Spanning) -> None:
    statement = "select count(*) from events where day < date '2026-01-02'"
    with person(lake) as conn, person(lake) as other:
        assert raw(conn, statement) == raw(lake.twin, statement)
        conn.execute("create temp table events (id integer, day date)")
        assert conn.execute(statement.encode()).fetchone() == (0,)
        assert raw(other, statement) == raw(lake.twin, statement)
        conn.execute("drop table events")
        assert raw(conn, statement) == raw(lake.twin, statement)
        conn.execute("create temp table shops (id integer)")
        conn.execute("begin")
        conn.execute("drop table shops")
        assert conn.execute("select count(*) from shops, events where events.id = 1").fetchone() == (9,)
        conn.execute("rollback")
        assert conn.execute("select count(*) from shops, events where events.id = 1").fetchone() == (0,)


@pytest.mark.parametrize(
    "made",
    [
        "create operator {schema}.+ (leftarg = integer, rightarg = integer, function = {schema}.wrong)",
        "create function {schema}.upper(text) returns text language sql immutable as 'select ''x'''",
    ],
    ids=["an operator", "a function"],
)
def test_an_object_of_the_users_own_is_called_by_postgres(lake: Spanning, made: str) -> None:
    owner = lake.session(autocommit=True)
    owner.execute("create schema mine")
    owner.execute("create function mine.wrong(integer, integer) returns integer language sql as 'select 42'")
    owner.execute(made.format(schema="mine").encode())
    asked = "select shop + 1, upper(kind) from events where id < 5 order by id"
    try:
        with person(lake, path="mine, pg_catalog, public_all, public") as conn, lake.session(autocommit=True) as twin:
            twin.execute("set search_path = mine, pg_catalog, twin")
            for statement in (asked, asked.replace("upper(", "mine.upper(")):
                assert outcome(conn, statement)[:2] == outcome(twin, statement)[:2]
                assert outcome(conn, statement)[3:] == outcome(twin, statement)[3:]
    finally:
        owner.execute("drop schema mine cascade")


def test_a_cast_of_the_users_own_leaves_statements_to_postgres(lake: Spanning) -> None:
    statement = "select count(*) from events where id < 10 and shop <> 78"
    owner = lake.session(autocommit=True)
    with person(lake) as conn:
        before = _by_duckdb()
        assert conn.execute(statement.encode()).fetchone() == (9,)
        assert _by_duckdb() == before + 1
        owner.execute("create cast (integer as text) with inout as implicit")
        try:
            assert conn.execute(statement.encode()).fetchone() == (9,)
            assert _by_duckdb() == before + 1
        finally:
            owner.execute("drop cast (integer as text)")


def test_code_that_runs_during_an_analysis_has_the_clients_rights(lake: Spanning) -> None:
    """A literal of an array over a domain runs the domain's CHECK; the spy says with which rights by a lock."""
    owner = lake.session(autocommit=True)
    owner.execute(
        """
        create role planter login password 'p'; grant usage, create on schema public to planter;
        grant usage on schema public_all to planter; grant select on public_all.events to planter;
        set role planter;
        create function public.spy(integer) returns boolean language plpgsql as $$
            begin
                perform pg_advisory_lock(case when rolsuper or current_user <> 'planter' then 666 else 777 end)
                   from pg_roles where rolname = current_user;
                return true;
            end $$;
        create domain public.spied as integer check (public.spy(value));
        reset role
        """
    )
    seen = "select distinct objid::int from pg_locks where locktype = 'advisory' and objid in (666, 777)"
    try:
        with person(lake, user="planter", password="p") as conn:
            statement = "select count(*) from events where id < 10 and '{1,2}'::public.spied[] is not null"
            assert conn.execute(statement.encode()).fetchone() == (9,)
            assert owner.execute(seen.encode()).fetchall() == [(777,)]
    finally:
        owner.execute("drop owned by planter cascade; drop role planter")


def test_a_role_without_temporary_objects_is_answered_by_postgres(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    name = sql.Identifier(owner.info.dbname)
    owner.execute("create role plain login password 'p'; grant usage on schema public_all to plain")
    owner.execute("grant select on public_all.events to plain")
    owner.execute(sql.SQL("revoke temporary on database {} from public").format(name))
    try:
        with person(lake, user="plain", password="p") as conn, _notices(conn) as heard:
            before = _by_duckdb()
            assert conn.execute(COUNT.encode()).fetchone() == (9,)
            assert _by_duckdb() == before
            assert heard == []
        owner.execute(sql.SQL("grant temporary on database {} to public").format(name))
        with person(lake, user="plain", password="p") as conn:
            assert conn.execute(COUNT.encode()).fetchone() == (9,)
            assert _by_duckdb() == before + 1
            owner.execute(sql.SQL("revoke temporary on database {} from public").format(name))
            for number, begin in enumerate(("select 1", "begin", "begin isolation level repeatable read")):
                conn.execute(begin.encode())
                status = conn.info.transaction_status
                for _ in range(2):
                    assert conn.execute(f"{COUNT} and shop <> {700 + number}".encode()).fetchone() == (9,)
                    assert conn.info.transaction_status == status
                conn.execute("rollback")
            assert _by_duckdb() == before + 1
    finally:
        owner.execute(sql.SQL("grant temporary on database {} to public").format(name))
        owner.execute("drop owned by plain; drop role plain")


def test_a_notice_of_an_event_trigger_does_not_reach_the_client(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    owner.execute(
        "create function public.tell() returns event_trigger language plpgsql as "
        "$$ begin raise notice 'a command'; end $$; create event trigger tell on ddl_command_end "
        "execute function public.tell()"
    )
    try:
        with person(lake, engine="duckdb") as conn, _notices(conn) as heard:
            assert conn.execute("select count(*) from events where id < 10 and shop <> 79").fetchone() == (9,)
            assert heard == []
    finally:
        owner.execute("drop event trigger tell; drop function public.tell()")


def test_a_session_that_prepared_a_statement_first_keeps_its_literals(lake: Spanning) -> None:
    """A session that gets its temporary schema later has its prepared statements read again by Postgres."""
    prepared = b"select count(*) from public_all.events where ts < '2026-01-02 00:00'"
    with psycopg.connect(lake.dsn, autocommit=True) as twin:
        answers = []
        for dsn in (make_conninfo(lake.dsn, host="127.0.0.1", port=lake.gateway.port, password="correct horse"), None):
            with psycopg.connect(dsn, autocommit=True) if dsn else twin as conn:
                run = conn.pgconn
                run.prepare(b"s", prepared if dsn else prepared.replace(b"public_all", b"twin"))
                for setting in ("timezone = 'Asia/Kolkata'", "datestyle = 'SQL, DMY'"):
                    conn.execute(f"set {setting}".encode())
                conn.execute(b"select count(*) from public_all.events")
                answers.append(run.exec_prepared(b"s", []).get_value(0, 0))
        assert answers[0] == answers[1]


BODIES = {
    "several statements": "select 1; select 2",
    "an end of the body": "select 1; end; drop table public.kept",
    "an end in a comment": "select 1 -- ",
    "a statement that is no query": "drop table public.kept",
}


@pytest.fixture
def reader(postgres: PostgresServer, database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create table public.kept (n integer, d timestamptz)")
        create, drop = analysis_queries.render_temporary_schema()
        conn.execute("begin")
        conn.execute(create.encode())
        conn.execute(drop.encode())
        conn.execute("commit")
        yield conn


def _own_schema(conn: psycopg.Connection[Any]) -> str:
    row = conn.execute("select nspname from pg_namespace where oid = pg_my_temp_schema()").fetchone()
    assert row is not None
    return str(row[0])


def _analyse(conn: psycopg.Connection[Any], text: str, oids: tuple[int, ...] = ()) -> str | None:
    """The canonical text, as the gateway asks for it; `None` where Postgres refuses the function."""
    schema = _own_schema(conn)
    conn.execute("begin")
    try:
        for query in (analysis_queries.render_limits(0), analysis_queries.render_function(text, oids, schema)):
            assert conn.pgconn.exec_params(query.encode(), []).error_message == b""
        conn.execute(analysis_queries.render_printing().encode())
        row = conn.execute(analysis_queries.render_analysed(("pg_catalog", "public")).encode()).fetchone()
        return None if row is None else str(row[0])
    except AssertionError:
        return None
    finally:
        conn.execute("rollback")


@pytest.mark.parametrize("name", BODIES)
def test_no_text_gets_out_of_the_body_of_the_function(reader: psycopg.Connection[Any], name: str) -> None:
    _analyse(reader, BODIES[name])
    assert reader.execute("select count(*) from public.kept").fetchone() == (0,)
    assert reader.execute("select count(*) from pg_proc where pronamespace = pg_my_temp_schema()").fetchone() == (0,)


def test_the_text_is_printed_the_same_under_all_settings(reader: psycopg.Connection[Any]) -> None:
    text = "select n, '1.5 hours'::interval, '\\x01'::bytea, 1e-5::float8 from kept where d < '2026-02-01 00:00+00'"
    texts = set()
    for settings in (
        "set datestyle = 'German'; set intervalstyle = 'iso_8601'; set bytea_output = 'escape'",
        "set timezone = 'Asia/Kolkata'; set extra_float_digits = -3; set quote_all_identifiers = on",
        "reset all",
    ):
        reader.execute(settings.encode())
        texts.add(_analyse(reader, text))
    assert len(texts) == 1
    assert "public.kept" in str(texts)


def test_a_transaction_with_an_analysis_in_it_can_be_prepared(reader: psycopg.Connection[Any]) -> None:
    reader.execute("begin")
    reader.execute("savepoint mark")
    reader.execute(analysis_queries.render_function("select $1 + n from kept", (23,), _own_schema(reader)).encode())
    reader.execute("rollback to savepoint mark")
    reader.execute("release savepoint mark")
    # This server keeps no prepared transactions; what it checks first is whether temporary objects were touched.
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="prepared transactions are disabled"):
        reader.execute("prepare transaction 'analysed'")


def test_an_analysis_is_limited_in_time(reader: psycopg.Connection[Any], database: str) -> None:
    shown = "select current_setting('lock_timeout'), current_setting('statement_timeout')"
    for seconds, expected in ((0.0, ("500ms", "5s")), (1.5, ("500ms", "1500ms")), (60.0, ("500ms", "5s"))):
        reader.execute("begin")
        reader.execute(analysis_queries.render_limits(seconds).encode())
        assert reader.execute(shown).fetchone() == expected
        reader.execute("rollback")
    with psycopg.connect(database) as locking:
        locking.execute("lock table public.kept")
        assert _analyse(reader, "select n from kept") is None
