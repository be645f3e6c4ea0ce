"""The fuzzer's spanning table, and three ordinary tables with the same rows.

Its columns have every native type, some that the lake holds as text, and names that parsers stumble over: one is named
like the table, others like keywords. Half of its rows are cold, some corrections wait in the delta. `twin` holds the
rows as they were written, `backward` in the reverse order, `shuffled` by a hash: a statement whose answer differs among
these has no answer of its own, and nobody can be held to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.twin import Spanning

TABLE = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    day date not null,
    at timestamp,
    clock time,
    events integer,
    "order" smallint,
    price numeric(12, 2),
    rate numeric(5, 4),
    wide numeric(38, 10),
    free numeric,
    large bigint,
    kind text,
    c_kind text collate "C",
    note varchar(40),
    fixed char(8),
    "user" text,
    "a ""b"" c" integer,
    "größe" double precision,
    "real" real,
    ok boolean,
    u uuid,
    raw bytea,
    span interval,
    tags text[],
    nums integer[],
    doc jsonb,
    net inet,
    clockz timetz,
    far date,
    far_at timestamp,
    late time,
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
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '23 hours 51 minutes 7.25 seconds',
       case i % 15 when 3 then date '0044-03-15 BC' when 4 then '9999-12-31' else date '2026-01-01' + i / 3 end,
       case i % 13 when 3 then timestamp '0001-01-01' when 4 then '1969-12-31 23:59:59.999999' when 5 then null
                   else timestamp '2026-01-01' + i * interval '13 hours' end,
       case when i % 7 = 0 then null else time '00:00' + i * interval '7 minutes 0.5 seconds' end,
       case i % 11 when 0 then null when 1 then 2147483647 when 2 then -2147483648 else i - 50 end,
       case i % 9 when 0 then null when 1 then 32767 when 2 then -32768 else i % 5 end,
       case i % 8 when 0 then null when 1 then 9999999999.99 when 2 then -0.01 else (i * 7919 % 10000) / 100.0 end,
       (i % 3) / 3.0, case when i % 6 = 0 then null else i * 1234567890123456789.0123456789 end,
       (array[0, 1.0, 1.00, 1e-20, 12345678901234567890.5, null])[i % 6 + 1],
       case i % 10 when 0 then null when 1 then 9223372036854775807 when 2 then -9223372036854775808
                   else i::bigint * 1000000007 end,
       (array['click', 'view', 'buy', 'Ärger', '', 'a', 'B', '日本', null, 'it''s',
              E'tab\\tnew\\nline\\\\'])[i % 11 + 1],
       (array['b', 'B', 'a', 'ä', '', null, 'Z'])[i % 7 + 1],
       case when i % 4 = 0 then null else 'note ' || i % 5 end, (array['a', 'ab', 'b  ', null])[i % 4 + 1],
       (array['postgres', 'ann', null])[i % 3 + 1], i % 4,
       (array['-0', 0.2, 0.1, 1e15, 1e14, 123456789012345.6, 1e-5, 'NaN', 'Infinity', '-Infinity', 5e-324, null,
              1.7976931348623157e308, 1e23, 100000, i / 3.0]::float8[])[i % 16 + 1],
       (array['-0', 0.2, 0.1, 1e6,
              1234567, 1e-5, 'NaN', 'Infinity', 1e-45, 3.4e38, null, i / 3.0]::real[])[i % 12 + 1],
       case when i % 5 = 0 then null else i % 2 = 0 end, md5((i % 20)::text)::uuid,
       case i % 4 when 0 then null when 1 then ''::bytea else decode(md5(i::text), 'hex') end,
       (array[interval '0', '1 day', '24 hours', '1 mon -1 day',
              '-1 year 2 mons 3 days 04:05:06.789', null])[i % 6 + 1],
       case when i % 3 = 0 then null else array['a', i::text, null, 'x "y"'] end, array[i, null, i % 3],
       case when i % 4 = 0 then null else jsonb_build_object('i', i % 3, 'x', null, 'l', array[1.0, 1.50]) end,
       ('10.0.0.' || i % 5 || '/24')::inet, timetz '12:00+02' + i * interval '1 hour',
       date '2026-01-01' + i, timestamp '2026-01-01' + i * interval '1 second', time '12:00' + i * interval '1 second'
  from generate_series(1, 96) i
"""

CHANGES = (
    "update events set events = 5555, kind = 'corrected' where id in (10, 11, 50)",
    "delete from events where id in (20, 60, 95)",
    "insert into events (id, ts, day, kind) values (901, '2026-01-15 10:00+00', '2026-01-15', 'late')",
    # Values that the lake cannot hold stay in the heap.
    "update events set far = 'infinity', late = '24:00', far_at = '-infinity' where id in (93, 94)",
)

BESIDE = """
create table {schema}.dims (k integer primary key, label text, w numeric(6, 2), "order" integer, opened date);
insert into {schema}.dims
select i, (array['click', 'view', 'none', null])[i % 4 + 1], i / 3.0, i % 2, date '2026-01-01' + i
  from generate_series(0, 6) i;
"""
SHADOW = """
create schema shadow;
create function shadow.length(text) returns integer language sql immutable as 'select 4711';
create function shadow.abs(integer) returns integer language sql immutable as 'select 4712';
"""

ORDERS = {"backward": "id desc", "shuffled": "hashint8(id)"}
"""Schemas with another physical order."""
OTHER_PLANS = {
    "backward": {"enable_hashagg": "off", "enable_hashjoin": "off"},
    "shuffled": {"enable_sort": "off", "enable_mergejoin": "off", "enable_nestloop": "off"},
}
"""Settings of the sessions on them: other plans meet the rows in other orders."""


@contextmanager
def open_odd_table(dsn: str, directory: Path) -> Iterator[Spanning]:
    """The table with its tiers filled, and its twins."""
    made = Spanning.make(dsn, directory, table=TABLE, partitions=PARTITIONS, rows=ROWS)
    try:
        made.tier()
        for statement in CHANGES:
            made.both(statement)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(SHADOW.encode())
            for schema, order in ORDERS.items():
                conn.execute(f"create schema {schema}".encode())
                conn.execute(TABLE.format(schema=schema).encode())
                conn.execute(f"insert into {schema}.events select * from twin.events order by {order}".encode())
            for schema in ("public", "twin", *ORDERS):
                conn.execute(BESIDE.format(schema=schema).encode())
            conn.execute(b"analyze")
        yield made
    finally:
        made.close()
