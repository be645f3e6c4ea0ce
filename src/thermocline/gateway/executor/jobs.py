"""What the gateway tells an executor: how to run, and one job for each statement.

Planning is the gateway's: a job holds finished SQL with its parameters, and names of files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thermocline.gateway.executor.memory_limits import MemoryLimits
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.fragments import Fragment
from thermocline.runtime.object_store import ObjectStore
from thermocline.runtime.pg import SESSION_SETTINGS

READ_SETTINGS = {
    **SESSION_SETTINGS,
    "timezone": "GMT",
    "application_name": "thermocline gateway",
    "jit": "off",
}
"""Settings of every Postgres session that reads for a whole query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """How an executor runs; `spill_path` is a directory of its own."""

    dsn: str = field(repr=False)
    threads: int
    memory: MemoryLimits
    spill_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAccess:
    """The object store of a job's files, if they are in one, and the files that must be checked for field ids first."""

    store: ObjectStore | None = None
    unchecked_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanJob:
    """A scan of the lake. One that holds many rows before the first one leaves runs under the connection's limit."""

    lake: LakeAccess
    statement: Fragment
    batch_rows: int
    type_oids: tuple[int, ...]
    holds_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresRead:
    """A query of Postgres whose rows DuckDB gets under a name; each column is sent as `render_transfer` says."""

    name: str
    query: str
    columns: tuple[str, ...]
    sql_types: tuple[SqlType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedGroups:
    """A GROUP BY that Postgres computes over the heap while DuckDB computes it over the lake."""

    heap: PostgresRead
    lake_name: str
    lake: Fragment
    columns: tuple[str, ...]
    sql_types: tuple[SqlType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueryJob:
    """A whole query: rows of Postgres at an exported snapshot, then a statement over them and the lake."""

    lake: LakeAccess
    snapshot: str
    reads: tuple[PostgresRead, ...]
    read_limit_bytes: int
    groups: DividedGroups | None
    statement: Fragment
    sql_types: tuple[SqlType, ...]
    memory_bytes: int


Job = ScanJob | WholeQueryJob
