"""Statements become streams of rows here: planned, pruned, opened on DuckDB or on Postgres. All of it blocks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from thermocline.core.names import TableName
from thermocline.errors import StatementRefused
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.describe import Description, describe_select
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory
from thermocline.gateway.lake_arm.postgres_evaluation import PostgresRows
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.sql.column_mapping import MappedTable
from thermocline.gateway.sql.pushdown.select import LakeQuery, PostgresQuery, parse_select, plan_select, table_names
from thermocline.gateway.sql.syntax.statements import parse_sample
from thermocline.gateway.sql.values import Constant
from thermocline.gateway.wire.messages import Field

log = logging.getLogger(__name__)


PARAMETERS = {
    "server_version": "17.0 (Thermocline)",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "GMT",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "default_transaction_read_only": "on",
}


class LakeQueryService:
    """Opens answers, over one engine and one directory."""

    def __init__(self, engine: DuckDbEngine, catalog: CatalogReader) -> None:
        self._engine = engine
        self._catalog = catalog

    def connection_memory(self) -> ConnectionMemory:
        """What one more connection may hold."""
        return self._engine.connection_memory()

    def parameter(self, name: str) -> str:
        """A session parameter's value, for SHOW."""
        known = {key.lower(): value for key, value in PARAMETERS.items()}
        if name not in known:
            raise StatementRefused(f"The gateway has no parameter {name}.")
        return known[name]

    def open_select(
        self,
        sql: str,
        constants: Sequence[Constant],
        parameters: Sequence[bytes | None],
        *,
        analyzed: frozenset[TableName] = frozenset(),
        memory: ConnectionMemory | None = None,
    ) -> ResultStream:
        """The answer of a SELECT. Tables in `analyzed` are read whole, at the published snapshot, as ANALYZE does."""
        sample = parse_sample(sql) if analyzed else None
        query = self._plan(sample.sql if sample else sql, constants, analyzed)
        if isinstance(query, LakeQuery):
            if sample:
                query = _sampled(query, sample.share)
            return ResultStream(self._engine.open(query, memory), self._engine.ahead)
        metrics.POSTGRES_EVALUATED.inc()
        log.debug("evaluated by Postgres: %s", query.reason)
        return ResultStream(PostgresRows(query, parameters, self._engine, self._catalog))

    def _plan(
        self, sql: str, constants: Sequence[Constant], analyzed: frozenset[TableName]
    ) -> LakeQuery | PostgresQuery:
        whole = bool(analyzed) and set(table_names(parse_select(sql))) <= analyzed
        unsaid = self._catalog.read_published_snapshot if whole else None
        query = plan_select(sql, constants, self._catalog.cached_table, default_snapshot=unsaid)
        if self._is_current(query):
            return query
        for name in set(table_names(parse_select(sql))):
            self._catalog.read_table(name)
        return plan_select(sql, constants, self._catalog.cached_table, default_snapshot=unsaid)

    @staticmethod
    def _is_current(query: LakeQuery | PostgresQuery) -> bool:
        """Whether what was known of the tables suffices: an unseen snapshot or column asks for a fresh look."""
        if isinstance(query, PostgresQuery):
            return False
        scan = query.scan
        return scan.snapshot_id is None or scan.mapped_table.lake_table.has_snapshot(scan.snapshot_id)

    def describe(self, sql: str, oids: Sequence[int]) -> Description:
        """The parameters and columns of a SELECT, as Postgres itself understands it."""
        for name in set(table_names(parse_select(sql))):
            self._catalog.read_table(name)
        return describe_select(sql, oids, self._catalog)

    def open_explain(self, sql: str, constants: Sequence[Constant]) -> ResultStream:
        """One line in EXPLAIN's form, with rows estimated from file statistics, for `use_remote_estimate`."""
        query = plan_select(
            sql, constants, self._catalog.read_table, default_snapshot=self._catalog.read_published_snapshot
        )
        scans = (query.scan,) if isinstance(query, LakeQuery) else query.scans
        plans = [self._engine.plan(scan) for scan in scans]
        files = sum(len(plan.data) for plan in plans if plan)
        rows = max((plan.row_count for plan in plans if plan), default=0)
        if isinstance(query, LakeQuery) and query.is_aggregate:
            rows = 1
        width = 16 * (len(query.outputs) if isinstance(query, LakeQuery) else 4)
        who = "Lake Scan" if isinstance(query, LakeQuery) else "Lake Scan evaluated by Postgres"
        line = f"{who} on {files} files  (cost=10.00..{10 + rows * 0.01:.2f} rows={rows} width={width})"
        return ResultStream(ConstantRows([Field(name="QUERY PLAN", type_oid=25)], [[line.encode()]]))

    def open_relation_size(self, name: TableName, block_bytes: int) -> ResultStream:
        """Pages of a lake table, as ANALYZE asks for them."""
        _, size = self._size(name)
        return ResultStream(
            ConstantRows([Field(name="?column?", type_oid=20, type_size=8)], [[str(-(-size // block_bytes)).encode()]])
        )

    def open_relation_info(self, name: TableName, columns: Sequence[str]) -> ResultStream:
        """Pages, rows and kind of a lake table, as ANALYZE asks for them."""
        rows, size = self._size(name)
        known = {
            "relpages": (Field(name="relpages", type_oid=23, type_size=4), str(-(-size // 8192)).encode()),
            "reltuples": (Field(name="reltuples", type_oid=700, type_size=4), str(rows).encode()),
            "relkind": (Field(name="relkind", type_oid=18, type_size=1), b"r"),
        }
        return ResultStream(ConstantRows([known[name][0] for name in columns], [[known[name][1] for name in columns]]))

    def _size(self, name: TableName) -> tuple[int, int]:
        mapped_table: MappedTable = self._catalog.read_table(name)
        snapshot_id = self._catalog.read_published_snapshot(name)
        if snapshot_id is None or not mapped_table.lake_table.has_snapshot(snapshot_id):
            return 0, 0
        data = mapped_table.lake_table.files(snapshot_id).data
        return sum(file.record_count for file in data), sum(file.size_bytes for file in data)


def _sampled(query: LakeQuery, share: float) -> LakeQuery:
    scan = query.scan
    if scan.snapshot_id is None or not scan.mapped_table.lake_table.has_snapshot(scan.snapshot_id):
        return query
    rows = sum(file.record_count for file in scan.mapped_table.lake_table.files(scan.snapshot_id).data)
    return replace(query, scan=replace(scan, sampled_rows=max(1, round(share * rows))))
