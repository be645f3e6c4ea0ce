"""A day of steady ingest into a table partitioned by the hour, with passes of compaction at the same time; its clock is
simulated.

Files come in before each pass and in the middle of its commit, so every pass that commits loses a race. Sealed, a pass
rewrites hours that are over; unsealed, the current hour too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.lake_place import run_compact
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.maintain.context import PassContext
from thermocline.maintain.latency import LatencyProbe
from thermocline.maintain.pacing import Pacing
from thermocline.runtime.locations import without_file_scheme

EAGER = Policy(
    preset="artemis",
    rewrite_min_input_files=2,
    min_input_scope="partition",
    splice_min_row_group_bytes=0,
    max_commit_retries=16,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPassed:
    """The counters of a day of passes concurrent with ingest."""

    passes: int
    paused: int
    failed: tuple[str, ...]
    conflicts: int
    rebases: int
    files_came: int
    most_files: int
    files_left: int


class _Overtaken:
    """The Spark session of a pass. Another writer commits after the pass has read the head and before it commits."""

    def __init__(self, spark: SparkSession, overtake: Callable[[], None]) -> None:
        self._spark, self._overtake, self._looks = spark, overtake, -1

    def report_progress(self, line: object) -> None:
        """A bin that is finished: what is asked of Spark next belongs to the commit."""
        self._looks = 0 if str(line).startswith("compact bin") else self._looks

    def __call__(self) -> SparkSession:
        if self._looks >= 0:
            self._looks += 1
            if self._looks == 2:
                self.finish()
        return self._spark

    def finish(self) -> None:
        """The other's commit, if it was not made yet."""
        overtake, self._overtake, self._looks = self._overtake, lambda: None, -1
        overtake()


@dataclass(slots=True, kw_only=True)
class SimulatedDay:
    """One table, and the day after tomorrow: commits of today are older than any window of that day."""

    spark: SparkSession
    name: TableName
    context: PassContext
    policy: Policy = EAGER
    files_came: int = 0

    @staticmethod
    def make_table(spark: SparkSession, name: TableName) -> None:
        spark.sql(f"create namespace if not exists thermocline.{name.schema}")
        spark.sql(
            f"create table thermocline.{name.schema}.{name.table} (id bigint, ts timestamp) using iceberg "
            "partitioned by (hours(ts))"
            " tblproperties ('format-version' = '2', 'commit.manifest.min-count-to-merge' = '8',"
            " 'commit.retry.num-retries' = '50', 'commit.retry.min-wait-ms' = '5')"
        )

    @property
    def begins(self) -> datetime:
        return (datetime.now(UTC) + timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)

    def run(self, passes: int, files_per_pass: int) -> DayPassed:
        """Run passes spread evenly over the day, with concurrent ingest."""
        told, most, begins = [], 0, self.begins
        for at in range(passes):
            now = begins + timedelta(days=1) * at / passes
            self._ingest(now, files_per_pass // 2)
            spark = _Overtaken(self.spark, lambda now=now: self._ingest(now, files_per_pass - files_per_pass // 2))  # type: ignore[misc]
            told.append(run_compact(replace(self._context_at(now), spark=spark, report_progress=spark.report_progress)))
            spark.finish()
            most = max(most, self.count_files())
        return DayPassed(
            passes=passes,
            paused=sum(outcome.status == "paused" for outcome in told),
            failed=tuple(outcome.sentence for outcome in told if outcome.status == "failed"),
            conflicts=sum(outcome.counters.get("conflicts", 0) for outcome in told),
            rebases=sum(outcome.counters.get("rebases", 0) for outcome in told),
            files_came=self.files_came,
            most_files=most,
            files_left=self.count_files(),
        )

    def count_files(self) -> int:
        head = load_table(self.spark, self.name)
        snapshot = next(found for found in head.metadata["snapshots"] if found["snapshot-id"] == head.snapshot_id)
        return int(snapshot["summary"]["total-data-files"])

    def _context_at(self, now: datetime) -> PassContext:
        pacing = Pacing(policy=self.policy, probe=LatencyProbe(), clock=lambda: now)
        return replace(
            self.context,
            policy=self.policy,
            now=now,
            pass_id=uuid.uuid4(),
            why_pause=pacing.why_pause,
            pace=pacing.pace,
        )

    def _ingest(self, now: datetime, files: int) -> None:
        """Files of the current hour, in one commit."""
        table = load_table(self.spark, self.name).table
        update = table.newAppend()
        for _ in range(files):
            update.appendFile(self._file(table, now))
        update.commit()

    def _file(self, table: Any, now: datetime) -> Any:
        self.files_came += 1
        path = f"{table.location()}/data/came-{self.files_came}.parquet"
        local = Path(without_file_scheme(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
                pa.field("ts", pa.timestamp("us", tz="UTC"), metadata={"PARQUET:field_id": "2"}),
            ]
        )
        pq.write_table(pa.table([[self.files_came], [now]], schema=schema), local)
        iceberg: Any = self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        builder = (
            iceberg.DataFiles.builder(table.spec())
            .withPath(path)
            .withFileSizeInBytes(local.stat().st_size)
            .withRecordCount(1)
        )
        return (
            builder.withFormat("parquet").withPartitionPath(f"ts_hour={(now - _EPOCH) // timedelta(hours=1)}").build()
        )
