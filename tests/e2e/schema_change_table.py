"""A table whose columns change: its definition, a write that reaches each tier, and the follow of the lake."""

from __future__ import annotations

from tests.twin import Spanning

from thermocline.ops.verify.verify_table import verify

TABLE = """
create table {schema}.events (
    id integer not null,
    ts timestamptz not null,
    v integer check (v >= 0),
    note text default 'd',
    amount numeric(8, 2),
    doc jsonb,
    small smallint,
    rate real,
    code varchar(10),
    primary key (id, ts)
)"""
PARTITIONS = """
create table public.events_2026_01 partition of public.events
    for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events
    for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events
    for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
"""
ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 day', i, 'row ' || i, i / 7.0,
    jsonb_build_object('i', i), i, i / 3.0,
       'c' || i
  from generate_series(1, 70) i
"""


def write_everywhere(spanning: Spanning, assignment: str, number: int) -> None:
    """Apply the assignment to a lake row, a corrected one, one in the spill and a hot one; then compare all rows."""
    for key in (3 + number, 7, 500, 65 + number):
        spanning.both(f"update events set {assignment} where id = {key} returning id")
    spanning.assert_same_rows()


def settle(spanning: Spanning) -> None:
    """Follow the schema change and fold; verify must find no difference."""
    spanning.fold()
    spanning.assert_same_rows()
    report = verify(spanning.dsn, spanning.name)
    assert not report.problems
    assert all(part.problem is None for part in report.ranges)
