"""Makes the fixture of a release with the program of the tree it runs in.

    .venv/bin/python -m tests.releases.make_release

Run it once for each release, on the commit that is released, and commit `tests/releases/<version>`. A fixture is never
made again: a later program cannot make it. `tests/e2e/test_upgrades.py` upgrades every fixture, so it relies on this:

- `public.events`: tiered, partitioned by month on a timestamptz. One month is in the lake alone, one in both tiers, the
  others in the heap. Corrections are folded and compacted; later ones are pending, one row among them in the spill.
  One column was dropped before the registration, one added after the first fold.
- `public.ledger`: keep-heap, partitioned on a bigint; corrections are folded, later ones pending.
- `twin.events`, `twin.ledger`: ordinary tables with the same rows.
- One role, the superuser `postgres`: roles belong to the cluster, and the dump of a database does not carry them.

The dump contains a login for the gateway. Its password is random and belongs to a cluster that this script deletes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession
from tests.releases.fixture import Program, assert_same_table, hold_place, write_fixture

from thermocline import __version__
from thermocline.gateway.server import start_in_thread
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

POSTGRES = "15.15.0"
"""The major whose pg_dump Debian ships: pg_dump reads no server that is newer than itself."""

TYPES = "create type public.mood as enum ('calm', 'wild', 'it''s odd')"
EVENTS = """
create table {schema}.events (
    gone text,
    id bigint not null,
    ts timestamptz not null,
    small smallint,
    n integer not null check (n >= 0),
    word text default 'd',
    essay text,
    amount numeric(12, 2),
    loose numeric,
    seen timestamptz,
    doc jsonb,
    rate double precision,
    token uuid,
    raw bytea,
    tags text[],
    mood public.mood,
    primary key (id, ts)
)"""
EVENTS_PARTITIONS = """
create table public.events_2026_01 partition of public.events
    for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events
    for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events
    for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
create table public.events_2026_04 partition of public.events
    for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00')"""
EVENTS_ROWS = r"""
insert into {schema}.events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '12 hours', (i % 7 - 3) * 10922, i,
       case i % 9 when 0 then null when 1 then '' when 2 then 'é𝄞' || i when 3 then E'it''s\n\t\\'
            else 'word ' || i end,
       case when i % 60 = 5 then repeat('essay ' || i || ' ', 1500) end,
       case i % 50 when 0 then -9999999999.99 when 1 then null else i / 7.0 end,
       case i % 11 when 0 then 'NaN' when 1 then 1.10 when 2 then 1e-30 when 3 then null else i * 1e20 end,
       case i % 40 when 0 then '0044-03-15 12:00+00 BC' when 1 then '9999-12-31 23:59:59.999999+00'
            else '1969-12-31 23:59:59.999999+00'::timestamptz + i * interval '1.000001 hours' end,
       case i % 10 when 0 then null when 1 then 'null' when 2 then '[]'
            else jsonb_build_object('i', i, 'é', array[1.10, i]) end,
       case i % 13 when 0 then 'NaN' when 1 then '-0' when 2 then 'Infinity' when 3 then '-Infinity'
            else i / 3.0::float8 end,
       md5(i::text)::uuid,
       case i % 8 when 0 then null when 1 then '' when 2 then '\xff00ff' else decode(md5(i::text), 'hex') end,
       case i % 6 when 0 then null when 1 then '{{}}' when 2 then '{{NULL,"","a b"}}' else array['a', i::text] end,
       (array['calm', 'wild', 'it''s odd', null])[1 + i % 4]::public.mood
  from generate_series(1, 238) i"""
LEDGER = """
create table {schema}.ledger (
    id bigint primary key,
    note text,
    balance numeric(20, 4),
    rate real,
    at timestamp,
    day date
)"""
LEDGER_PARTITIONS = """
create table public.ledger_0 partition of public.ledger for values from (0) to (100);
create table public.ledger_1 partition of public.ledger for values from (100) to (200);
create table public.ledger_2 partition of public.ledger for values from (200) to (300);
create table public.ledger_3 partition of public.ledger for values from (300) to (400)"""
LEDGER_ROWS = """
insert into {schema}.ledger
select i, 'entry ' || i, i * 1000000.0001, case i % 5 when 0 then 'NaN' else i / 3.0 end,
       '2026-03-29 01:30:00.000001'::timestamp + i * interval '7 hours', date '1969-12-30' + i
  from generate_series(1, 380, 4) i"""

FOLDED = (
    "update {schema}.events set n = n + 1000, word = 'folded' where id in (5, 6, 70)",
    "delete from {schema}.events where id in (7, 71, 200)",
    "insert into {schema}.events (id, ts, n, essay) values (9001, '2026-01-07 07:07+00', 1, repeat('late ', 2000))",
    "update {schema}.ledger set balance = -balance, rate = '-0' where id in (5, 109, 301)",
    "delete from {schema}.ledger where id in (9, 113, 305)",
)
FOLDED_LATER = (
    "update {schema}.events set n = n + 1, rate = 'NaN', mood = 'calm' where id in (5, 8, 72, 201)",
    "delete from {schema}.events where id = 9001",
)
PENDING = (
    "update {schema}.events set word = 'pending', loose = 1.100, tags = '{{x,NULL}}' where id in (5, 9, 73, 202)",
    "update {schema}.events set more = more + 1 where id in (10, 74, 203)",
    "delete from {schema}.events where id in (11, 75, 204)",
    "insert into {schema}.events (id, ts, n, doc, raw) values (9002, '2025-12-24 00:00+00', 2, '{{\"spill\": 1}}', '')",
    "update {schema}.events set ts = '2026-04-11 01:00+00' where id = 12",
    "update {schema}.ledger set note = 'pending', at = null where id in (13, 117, 309)",
    "delete from {schema}.ledger where id in (17, 121, 313)",
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="thermocline-release-") as name, hold_place(__version__) as place:
        directory = Path(name)
        directory.chmod(0o755)  # the server's user passes through
        settings = {**FAST_TEST_SETTINGS, "timezone": "UTC"}
        server = PostgresServer(directory / "postgres", free_port(), settings, password="test", version=POSTGRES)
        server.init()
        server.start()
        try:
            with closing(connect(server.dsn(), autocommit=True)) as conn:
                conn.execute("create database release")
            dsn = server.dsn("release")
            _fill(dsn, directory, place / "warehouse")
            folder = write_fixture(__version__, _dump(dsn), place / "warehouse")
        finally:
            if (session := SparkSession.getActiveSession()) is not None:
                session.stop()
            server.remove()
    for file in sorted(folder.iterdir()):
        print(f"{file}: {file.stat().st_size:,} bytes", file=sys.stderr)


def _fill(dsn: str, directory: Path, warehouse: Path) -> None:
    """Two spanning tables with a past, and their twins."""
    program = Program.make(directory, dsn, warehouse=warehouse, gateway_port=(port := free_port()))
    program.run("init")
    with start_in_thread(dsn, port), closing(connect(dsn, autocommit=True)) as conn:
        _make_tables(conn)
        program.run("register", "public.events", "--tiering-lag", "40d", "--reclaim-lag", "70d")
        program.run("register", "public.ledger", "--keep-heap")
        program.run("policy", "public.events", "--set", "rewrite_min_input_files=2")
        for table in ("public.events", "public.ledger"):
            program.run("tier", table)
            program.run("tier", table)
        _write(conn, FOLDED)
        program.run("fold", "public.events")
        program.run("fold", "public.ledger")
        for schema in ("public", "twin"):
            conn.execute(f"alter table {schema}.events add column more integer default 7".encode())
        _write(conn, FOLDED_LATER)
        program.run("fold", "public.events")
        done = program.run("maintain", "public.events")
        assert done["status"] == "done", done["sentence"]
        _write(conn, PENDING)
        for table in ("events", "ledger"):
            assert_same_table(conn, f"public_all.{table}", f"twin.{table}")
            print(conn.execute(_STATE.encode(), [table]).fetchone(), file=sys.stderr)


_STATE = """
select t.table_name, array_agg(p.state order by p.state)
  from thermocline.tables t join thermocline.partitions p on p.table_id = t.id where t.table_name = %s group by 1"""


def _make_tables(conn: psycopg.Connection[Any]) -> None:
    conn.execute("create schema twin")
    conn.execute(TYPES)
    for table, key in ((EVENTS, "ts"), (LEDGER, "id")):
        conn.execute(f"{table.format(schema='public')} partition by range ({key})".encode())
        conn.execute(table.format(schema="twin").encode())
    for partitions in (EVENTS_PARTITIONS, LEDGER_PARTITIONS):
        conn.execute(partitions.encode())
    for schema in ("public", "twin"):
        conn.execute(f"alter table {schema}.events drop column gone".encode())
        for rows in (EVENTS_ROWS, LEDGER_ROWS):
            conn.execute(rows.format(schema=schema).encode())


def _write(conn: psycopg.Connection[Any], statements: tuple[str, ...]) -> None:
    """The same statements on the seam and on the twin."""
    for statement in statements:
        ours, twins = (conn.execute(statement.format(schema=schema).encode()) for schema in ("public_all", "twin"))
        assert ours.rowcount == twins.rowcount > 0, statement


def _dump(dsn: str) -> str:
    """All of the database as psql reads it, without the two commands that psql before August 2025 does not know."""
    program = max(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"), key=lambda path: int(path.parts[-3]))
    told = subprocess.run([program, dsn], check=True, capture_output=True)
    lines = told.stdout.decode().split("\n")
    return "\n".join(line for line in lines if not line.startswith(("\\restrict ", "\\unrestrict ")))


if __name__ == "__main__":
    main()
