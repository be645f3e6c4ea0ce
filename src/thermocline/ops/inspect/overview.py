"""What is registered, where its line stands, and what was done last. Reads only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from psycopg import sql
from psycopg.rows import class_row, scalar_row

from thermocline.catalog.migrate import check_version_known, read_version
from thermocline.catalog.pauses import CycleState, read_cycle, read_paused_since
from thermocline.catalog.tables import RegisteredTable, find_table, read_tables
from thermocline.core.axis import render_axis
from thermocline.core.modes.table_settings import render_setting
from thermocline.core.names import TableName
from thermocline.runtime import pg

_QUERIES = pg.load_queries("thermocline.ops", "queries/overview.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """One registered table in one line."""

    table: str
    mode: str
    seam: str
    tier_key: str
    cut_line: str
    snapshot: int | None
    hot_partitions: int
    tiered_partitions: int
    dropped_partitions: int
    rows_tiered: int
    pending_corrections: int
    unfinished_ops: int
    paused_since: datetime | None = None
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition and where it is on its way."""

    name: str
    lower: str
    upper: str
    state: str
    rows_in_lake: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One change of the lake."""

    op_id: str
    kind: str
    phase: str
    snapshot: int | None
    message: str | None
    started_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One sentence of the table's history."""

    at: datetime
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail:
    """Everything that `show` prints."""

    overview: TableOverview
    primary_key: tuple[str, ...]
    key_type: str
    tiering_lag: int
    reclaim_lag: int
    lake: str
    lake_location: str
    lake_partition: str
    partitions: tuple[PartitionRow, ...]
    ops: tuple[OpRow, ...]
    events: tuple[EventRow, ...]
    keep_heap: bool
    lake_retention: int | None
    premake: int
    cycle: CycleState | None
    settings: dict[str, str]
    """Lags, lake retention and premake, as their options take them."""


def read_overview(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[TableOverview, ...]:
    """Every registered table; none where there is no catalog yet."""
    with pg.connect(
        dsn, application_name="thermocline tables", connect_timeout_seconds=connect_timeout_seconds
    ) as conn:
        conn.execute("set transaction isolation level repeatable read, read only")
        version = read_version(conn)
        check_version_known(version)
        return tuple(_overview(conn, table) for table in read_tables(conn)) if version else ()


def read_detail(dsn: str, name: TableName, *, connect_timeout_seconds: int = 5) -> TableDetail:
    """One registered table."""
    with pg.connect(dsn, application_name="thermocline show", connect_timeout_seconds=connect_timeout_seconds) as conn:
        conn.execute("set transaction isolation level repeatable read, read only")
        table = find_table(conn, name)
        return TableDetail(
            overview=_overview(conn, table),
            primary_key=table.pk,
            key_type=table.key_type.value,
            tiering_lag=table.tiering_lag,
            reclaim_lag=table.reclaim_lag,
            lake=table.lake_identifier,
            lake_location=table.lake_location,
            lake_partition=table.lake_partition,
            partitions=tuple(
                PartitionRow(
                    name=str(TableName(row.schema_name, row.name)),
                    lower=render_axis(table.key_type, row.lo),
                    upper=render_axis(table.key_type, row.hi),
                    state=row.state,
                    rows_in_lake=row.rows_in_lake,
                )
                for row in pg.rows_by_name(conn).execute(_QUERIES["partitions"], [table.id])
            ),
            ops=tuple(conn.cursor(row_factory=class_row(OpRow)).execute(_QUERIES["recent_ops"], [table.id])),
            events=tuple(conn.cursor(row_factory=class_row(EventRow)).execute(_QUERIES["recent_events"], [table.id])),
            keep_heap=table.mode.heap_is_complete,
            lake_retention=table.lake_retention,
            premake=table.premake,
            cycle=read_cycle(conn, table.id),
            settings={
                name: render_setting(table.key_type, name, value) for name, value in asdict(table.settings).items()
            },
        )


def _overview(conn: pg.Connection, table: RegisteredTable) -> TableOverview:
    row = pg.rows_by_name(conn).execute(_QUERIES["overview"], [table.id]).fetchone()
    assert row is not None
    pending = (
        conn.cursor(row_factory=scalar_row)
        .execute(
            sql.SQL("select count(*) from {} where _folded is null and thermocline.axis({}) < {}").format(
                sql.Identifier("thermocline_delta", table.object_name),
                sql.Identifier(table.tier_key),
                sql.Literal(row.t),
            )
        )
        .fetchone()
    )
    assert pending is not None
    return TableOverview(
        table=str(table.name),
        mode=table.mode.name,
        seam=str(TableName(table.seam_schema, table.name.table)),
        tier_key=table.tier_key,
        cut_line=render_axis(table.key_type, row.t),
        snapshot=row.snapshot,
        hot_partitions=row.hot_partitions,
        tiered_partitions=row.tiered_partitions,
        dropped_partitions=row.dropped_partitions,
        rows_tiered=row.rows_tiered,
        pending_corrections=pending,
        unfinished_ops=row.unfinished_ops,
        paused_since=read_paused_since(conn, table.id),
        started_at=table.started_at,
    )
