"""One tiering cycle under way, and its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from thermocline.ops.move_report import MoveReport
from thermocline.ops.spanning_table import SpanningTable
from thermocline.runtime.pg import Connection
from thermocline.runtime.progress import ProgressReporter
from thermocline.runtime.settings import Settings


@dataclass(slots=True, kw_only=True)
class TierReport(MoveReport):
    """What one tiering cycle did to one table."""

    moved: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    retention_line: str | None = None
    expired_files: int = 0
    cut_line: str = ""

    def done(self) -> list[str]:
        done = []
        if self.made:
            done.append(f"made {', '.join(self.made)} ahead")
        if self.moved:
            done.append(
                f"moved {len(self.moved)} partition{'s' * (len(self.moved) > 1)} ({self.rows:,} rows, "
                f"{self.files} files) to the lake"
            )
        if self.dropped:
            done.append(f"dropped {', '.join(self.dropped)} from the heap")
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRun:
    """One cycle under way: the connection that holds the table's lock, the table, and where Spark comes from."""

    conn: Connection
    dsn: str = field(repr=False)
    table: SpanningTable
    spark: Callable[[], SparkSession]
    settings: Settings
    worker: str
    report_progress: ProgressReporter
    report: TierReport
