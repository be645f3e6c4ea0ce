"""A spanning table of every native type, its twin, and two small tables beside it: what the batteries of whole queries
run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.twin import Spanning

TABLE = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    day date not null,
    at timestamp,
    clock time,
    shop integer not null,
    small smallint,
    qty integer,
    price numeric(12, 2),
    rate numeric(5, 4),
    large bigint,
    kind text,
    note varchar(40),
    ok boolean,
    f double precision,
    u uuid,
    raw bytea,
    tags text[],
    primary key (id, ts)
)"""

PARTITIONS = """
create table public.events_2026_01 partition of public.events
    for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events
    for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events
    for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
create table public.events_2026_04 partition of public.events
    for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00');
"""

ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '51 minutes 7.25 seconds', date '2026-01-01' + i / 28,
       timestamp '2026-01-01' + i * interval '13 minutes', time '00:00' + i * interval '7 seconds',
       i % 7, case when i % 11 = 0 then null else i % 100 - 50 end,
       case when i % 5 = 0 then null else (i * 37) % 1000 end,
       ((i * 7919) % 100000) / 100.0, (i % 10000) / 10000.0, i::bigint * 1000000007 * 13,
       (array['click', 'view', 'buy', 'refund', 'Ärger', ''])[i % 6 + 1],
       case when i % 4 = 0 then null else 'note ' || i % 50 end,
       case when i % 9 = 0 then null else i % 2 = 0 end,
       case when i % 13 = 0 then 'NaN' when i % 17 = 0 then null else i / 3.0 end,
       md5(i::text)::uuid, decode(md5(i::text), 'hex'), array['a', i::text]
  from generate_series(1, 3300) i
"""

CHANGES = (
    "update events set qty = 5555, kind = 'corrected' where id in (10, 11, 12, 500, 1500)",
    "delete from events where id in (20, 21, 600, 1600)",
    "insert into events (id, ts, day, shop, kind) values (9001, '2026-01-15 10:00+00', '2026-01-15', 3, 'late')",
)
"""Statements on both sides after tiering: some of their rows wait in the delta, some lie in the heap."""

BESIDE = """
create table {schema}.shops (id integer primary key, name text not null, region text, opened date);
insert into {schema}.shops
select i, 'shop ' || i, case when i % 3 = 0 then 'north' when i % 3 = 1 then 'south' end, date '2020-01-01' + i
  from generate_series(0, 8) i;
create table {schema}.rates (kind text, factor numeric(6, 3), valid boolean);
insert into {schema}.rates values
  ('click', 0.125, true), ('view', 1.5, false), ('buy', 2, true), ('refund', -1, null), ('none', 9, true);
"""


@contextmanager
def open_lake(dsn: str, directory: Path) -> Iterator[Spanning]:
    """Three months in the lake, one in the heap, corrections in the delta; its twin; and two plain tables on each
    side."""
    made = Spanning.make(dsn, directory, table=TABLE, partitions=PARTITIONS, rows=ROWS)
    try:
        made.tier()
        with psycopg.connect(dsn, autocommit=True) as conn:
            for schema in ("public", "twin"):
                conn.execute(BESIDE.format(schema=schema).encode())
        for statement in CHANGES:
            made.both(statement)
        yield made
    finally:
        made.close()


def through(lake: Spanning, **changes: Any) -> str:
    """The DSN of a user's connection through the gateway."""
    password = conninfo_to_dict(lake.dsn)["password"]
    return make_conninfo(lake.dsn, **{"host": "127.0.0.1", "port": lake.gateway.port, "password": password, **changes})


@contextmanager
def person(
    lake: Spanning, *, engine: str = "auto", path: str = "public_all, public", **changes: Any
) -> Iterator[psycopg.Connection[Any]]:
    """A user's session, in UTC."""
    with psycopg.connect(through(lake, **changes), autocommit=True) as conn:
        conn.execute(
            "select set_config('search_path', %s, false), set_config('thermocline.engine', %s, false)", (path, engine)
        )
        conn.execute("set timezone = 'UTC'")
        yield conn


Rows = tuple[list[tuple[bytes | None, int, int]], list[tuple[bytes | None, ...]]]


def raw(conn: psycopg.Connection[Any], statement: str, form: int = 0, *, ordered: bool = False) -> Rows:
    """Names, types and bytes of a result: text by the simple protocol, binary by the extended one."""
    run = conn.pgconn
    result = run.exec_params(statement.encode(), [], result_format=form) if form else run.exec_(statement.encode())
    assert result.status == pq.ExecStatus.TUPLES_OK, f"{statement}\n{result.error_message.decode()}"
    rows = [tuple(result.get_value(row, at) for at in range(result.nfields)) for row in range(result.ntuples)]
    fields = [(result.fname(at), result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
    return fields, rows if ordered else sorted(rows, key=repr)


def outcome(
    conn: psycopg.Connection[Any], statement: str | bytes, form: int = 0, *, ordered: bool = False
) -> tuple[Any, ...]:
    """All that a client receives for a statement: tag, names, types and bytes; or the error's SQLSTATE, message and
    position."""
    text = statement.encode() if isinstance(statement, str) else statement
    result = conn.pgconn.exec_params(text, [], result_format=form) if form else conn.pgconn.exec_(text)
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        told = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY, pq.DiagnosticField.STATEMENT_POSITION)
        return "error", *(result.error_field(field) for field in told)
    rows = [tuple(result.get_value(row, at) for at in range(result.nfields)) for row in range(result.ntuples)]
    fields = [(result.fname(at), result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
    return "rows", result.command_status, fields, rows if ordered else sorted(rows, key=repr)
