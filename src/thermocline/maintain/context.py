"""The request of a pass, and the context of its operations."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from thermocline.catalog.tables import RegisteredTable
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation
from thermocline.core.maintenance.pacing import UNPACED, Pace
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.runtime.pg import Connection
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTarget:
    """An Iceberg table under maintenance: `registered` when it is a tier of a Postgres table, `lake_id` when it was
    added by itself."""

    name: TableName
    """Namespace and name in the Iceberg catalog."""
    registered: RegisteredTable | None = None
    lake_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRequest:
    """What a pass is requested to do. A forced pass runs although maintenance is disabled, but runs no operation that
    its own key disables."""

    operations: tuple[Operation, ...] = ()
    where: str | None = None
    engine: str | None = None
    dry_run: bool = False
    forced: bool = True
    ignore_pacing: bool = False

    @property
    def may_run_concurrently(self) -> bool:
        """Whether it may run at the same time as others like it: it only compacts named partitions."""
        return self.forced and self.where is not None and self.operations == ("compact",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """One pass over one table. `conn` is in autocommit mode; `now` is Postgres' clock at the start of the pass.

    `pass_id` is the pass's row in op_log (kind `maintain`); files are staged under it until the op that commits them
    takes them over.
    """

    conn: Connection
    dsn: str
    spark: Callable[[], SparkSession]
    settings: Settings
    target: LakeTarget
    policy: Policy
    now: datetime
    worker: str
    dry_run: bool = False
    forced: bool = False
    may_run_concurrently: bool = False
    """Other passes may compact other partitions of the table at the same time, so each partition is locked first."""
    report_progress: ProgressReporter = no_progress
    pass_id: uuid.UUID | None = None
    """None in a dry run, which leaves no trace."""
    note_bounds: Callable[[Bounds], None] = lambda _: None
    """Keep the bounds of an operation's plan with the pass."""
    why_pause: Callable[[], str | None] = lambda: None
    """Asked between bins: a reason to stop here and keep what is finished, such as a quiet window that began."""
    pace: Callable[[], Pace] = lambda: UNPACED
    """Asked before each task: what all tasks of this worker together may take."""
