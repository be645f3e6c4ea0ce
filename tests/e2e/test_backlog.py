"""A large backlog of corrections drains commit by commit, with its rate told, while more arrive; and no task grows with
it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from tests.gateway.whole_lake import person
from tests.twin import Spanning

from thermocline.core.plan.fold import RANGE_ROWS
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker

BACKLOG = int(os.environ.get("THERMOCLINE_TEST_BACKLOG_ROWS", "1000000"))
IN_LAKE = 100_000
NARROW = "create table {schema}.events (id integer not null, k integer not null, v integer, primary key (id, k))"
GRID = """
create table public.events_1 partition of public.events for values from (0) to (100);
create table public.events_2 partition of public.events for values from (100) to (200);
"""
ROWS = f"insert into events select i, i % 10, i from generate_series(1, {IN_LAKE}) i union all select -1, 150, 0"
MEMORY_LIMIT_BYTES = 512 << 20
SUMS = "select count(*), sum(v), sum(id) from events"
EXPECTED = f"""
select count(*), sum(v), sum(id) from (
    select i as id, i as v from generate_series(1, {IN_LAKE}) i where i % 10 <> 5
    union all select i, -i from generate_series(1, {BACKLOG}) i where i % 20 <> 5
    union all values (-1, 0), (-7, 1), (-8, 2)) r
"""


@pytest.mark.conforms("C-132")
def test_a_backlog_of_a_million_drains_while_more_arrives(make_spanning: Callable[..., Spanning]) -> None:
    """All on one tier key: upserts of new rows, and every tenth row of the lake deleted or replaced.

    A twin of a million rows would cost more than the fold: what must be there is asked of `generate_series`, in
    Postgres too.
    """
    spanning = make_spanning(table=NARROW, partitions=GRID, partition_by="range (k)", rows=ROWS)
    spanning.tier()
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute(
            "insert into thermocline_delta.public__events (k, id, v, _op, _version)"
            " select 5, i, -i, (i %% 20 = 5)::integer, nextval('thermocline.delta_version') from "
            "generate_series(1, %s) i",
            [BACKLOG],
        )
    assert BACKLOG > 2 * RANGE_ROWS
    begun = time.monotonic()
    arrived: list[str] = []

    def arrive(line: str) -> None:
        if not arrived:
            spanning.seam.execute("insert into events values (-7, 6, 1), (-8, 5, 2)")
        arrived.append(line)

    report = spanning.fold(max_rows=BACKLOG // 2, report_progress=arrive)
    assert (report.rows, report.left) == (BACKLOG + 2, 0)
    assert report.commits >= 2
    assert report.rows_per_second > 0
    assert f"at {report.rows_per_second:,.0f} rows/s" in report.sentence
    assert report.seconds <= time.monotonic() - begun
    assert 0 < report.peak_task_bytes < MEMORY_LIMIT_BYTES
    with person(spanning) as whole:
        assert whole.execute(SUMS).fetchall() == spanning.query(EXPECTED)
    some = ", ".join(str(i) for i in range(5, BACKLOG, BACKLOG // 97))
    found = spanning.query(f"select id, v from events where k = 5 and id in ({some}) order by id")
    assert found == [(i, -i) for i in range(5, BACKLOG, BACKLOG // 97) if i % 20 != 5]


@pytest.mark.conforms("C-132")
@pytest.mark.parametrize("waiting", [999, 1000, 5000])
def test_the_batch_of_a_cycle_is_a_minimum_and_not_a_ceiling(
    make_spanning: Callable[..., Spanning], waiting: int
) -> None:
    rows = "insert into events select i, i % 10, i from generate_series(1, 50) i union all select -1, 150, 0"
    spanning = make_spanning(table=NARROW, partitions=GRID, partition_by="range (k)", rows=rows)
    spanning.tier()
    spanning.tier()
    spanning.both(f"insert into events select 1000 + i, 50, i from generate_series(1, {waiting}) i")
    assert spanning.settings.fold_min_rows == 1000
    with connect(spanning.dsn, autocommit=True) as conn:
        assert Worker(spanning.dsn, spanning.settings).run_cycle(conn)
    left = spanning.query("select count(*) from thermocline_delta.public__events where _folded is null")
    assert left == [(0 if waiting >= 1000 else waiting,)]
    spanning.assert_same_rows()
