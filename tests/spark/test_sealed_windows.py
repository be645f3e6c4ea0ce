"""Sealed windows: passes beside running ingest meet no conflict, late rows wait their time, and a day of it leaves few
files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from bench.sealed_windows import EAGER, SimulatedDay
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.core.names import TableName
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.runtime.settings import Settings

HOUR_MS = 3_600_000


@pytest.mark.conforms("M-135", "M-143")
def test_a_day_of_passes_beside_ingest_meets_no_conflict_and_keeps_the_files_few(lake_database: LakeDatabase) -> None:
    """A hundred passes, one each quarter of an hour of a simulated day, paced by a budget and closed from nine to
    five."""
    name = TableName("db", "hours")
    SimulatedDay.make_table(lake_database.spark, name)
    lake = Lake.adopt(lake_database, "hours")
    with closing(lake_database.connect()) as conn:
        context = PassContext(
            conn=conn,
            dsn=lake_database.dsn,
            spark=lambda: lake_database.spark,
            settings=Settings(dsn=lake_database.dsn),
            target=LakeTarget(name=name, lake_id=lake.lake_id),
            policy=EAGER,
            now=lake.now,
            worker="test",
        )
        policy = replace(
            EAGER, sealed_after_ms=0, quiet_windows="09:00-17:00 UTC", max_read_mb_per_s=20, max_write_mb_per_s=20
        )
        day = SimulatedDay(spark=lake_database.spark, name=name, context=context, policy=policy)
        done = day.run(passes=100, files_per_pass=4)
    assert done.failed == ()
    assert done.conflicts == 0
    assert done.rebases > 0, "commits of ingest came between"
    assert done.paused > 0
    assert done.files_came == 4 * done.passes
    assert len(lake.spark_rows()) == done.files_came
    assert done.most_files < 200, "what came in from nine to five, and a file for each other hour"
    assert done.files_left <= 24 + 32


@pytest.mark.conforms("M-136")
def test_a_late_row_opens_its_window_again_for_the_delay(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, ts timestamp", partitioned="days(ts)")
    lake.run("insert into {t} select id, timestamp '2024-03-15 10:00:00' from range(0, 20, 1, 2)")
    lake.now += timedelta(hours=2)
    assert lake.compact(sealed_after_ms=HOUR_MS).status == "done"
    assert lake.compact(sealed_after_ms=HOUR_MS).status == "skipped"
    lake.run("insert into {t} values (99, timestamp '2024-03-15 11:00:00')")
    lake.now -= timedelta(hours=2)
    assert lake.compact(sealed_after_ms=HOUR_MS).details[0] == "ts_day=2024-03-15 (spec 1): window not sealed"
    lake.now += timedelta(minutes=70)
    told = lake.compact(sealed_after_ms=HOUR_MS)
    assert (told.status, told.counters["files_merged"]) == ("done", 2)
    assert len(lake.seen().data) == 1
