"""What every operation of a pass is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from thermocline.catalog.tables import RegisteredTable
from thermocline.core.maintenance.policy import Policy
from thermocline.core.names import TableName
from thermocline.pg import Connection
from thermocline.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTarget:
    """An Iceberg table under maintenance: `registered` when it is a tier of a Postgres table, `lake_id` when it was added by itself."""

    name: TableName
    """Namespace and name in the Iceberg catalog."""
    registered: RegisteredTable | None = None
    lake_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """One pass over one table. `conn` is in autocommit mode; `now` is Postgres' clock at the start of the pass."""

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
    talk: Callable[[str], None] = lambda _: None
