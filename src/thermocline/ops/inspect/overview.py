"""What is registered, where its line stands, and what was done last. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from thermocline.catalog.migrate import check_version_known, read_version
from thermocline.catalog.pauses import CycleState, read_cycle, read_paused_since
from thermocline.catalog.tables import RegisteredTable, find_table, read_tables
from thermocline.core.axis import render_axis
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
    """Everything `show` tells."""

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
                    name=str(TableName(schema, partition)),
                    lower=render_axis(table.key_type, lo),
                    upper=render_axis(table.key_type, hi),
                    state=state,
                    rows_in_lake=rows,
                )
                for schema, partition, lo, hi, state, rows in conn.execute(_QUERIES["partitions"], [table.id])
            ),
            ops=tuple(
                OpRow(
                    op_id=op_id,
                    kind=kind,
                    phase=phase,
                    snapshot=snapshot,
                    message=message,
                    started_at=started,
                    changed_at=changed,
                )
                for op_id, kind, phase, snapshot, message, started, changed in conn.execute(
                    _QUERIES["recent_ops"], [table.id]
                )
            ),
            events=tuple(
                EventRow(at=at, sentence=sentence)
                for at, sentence in conn.execute(_QUERIES["recent_events"], [table.id])
            ),
            keep_heap=table.mode.heap_is_complete,
            lake_retention=table.lake_retention,
            premake=table.premake,
            cycle=read_cycle(conn, table.id),
        )


def _overview(conn: pg.Connection, table: RegisteredTable) -> TableOverview:
    row = conn.execute(_QUERIES["overview"], [table.id]).fetchone()
    assert row is not None
    t, snapshot, _epoch, hot, tiered, dropped, rows_tiered, unfinished = row
    pending = conn.execute(
        sql.SQL("select count(*) from {} where _folded is null and thermocline.axis({}) < {}").format(
            sql.Identifier("thermocline_delta", table.object_name), sql.Identifier(table.tier_key), sql.Literal(t)
        )
    ).fetchone()
    assert pending is not None
    return TableOverview(
        table=str(table.name),
        mode=table.mode.name,
        seam=str(TableName(table.seam_schema, table.name.table)),
        tier_key=table.tier_key,
        cut_line=render_axis(table.key_type, t),
        snapshot=snapshot,
        hot_partitions=hot,
        tiered_partitions=tiered,
        dropped_partitions=dropped,
        rows_tiered=rows_tiered,
        pending_corrections=pending[0],
        unfinished_ops=unfinished,
        paused_since=read_paused_since(conn, table.id),
    )
