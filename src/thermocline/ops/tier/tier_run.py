"""One tiering cycle under way, and its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from thermocline.catalog import tables
from thermocline.core.plan.preview import TierPreview
from thermocline.core.plan.stopped import render_reclaim_lag_changed, render_stopped
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
    preview: TierPreview | None = None
    """Of a dry run."""

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
    by_itself: bool = False
    """Nobody asked for the cycle."""
    may_move: bool = True
    """Partitions may be moved and dropped, and rows expired: by hand, or the table was started when the cycle
    began."""

    def why_stopped(self) -> str | None:
        """Why nothing may be taken out of the heap or the lake any more: somebody stopped the table meanwhile."""
        registered = self.table.registered
        if self.by_itself and self.may_move and not tables.is_started(self.conn, registered.id):
            return render_stopped(registered.name)
        return None

    def why_not_drop_now(self) -> str | None:
        """Why what was planned to leave the heap stays: by what holds now, and did not when it was planned."""
        registered = self.table.registered
        if reason := self.why_stopped():
            return reason
        if tables.read_reclaim_lag(self.conn, registered.id) != registered.reclaim_lag:
            return render_reclaim_lag_changed(registered.name)
        return None
