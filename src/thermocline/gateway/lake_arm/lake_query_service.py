"""Statements become streams of rows here: planned, pruned, opened on DuckDB or on Postgres. All of it blocks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from thermocline.core.names import TableName
from thermocline.errors import StatementRefused
from thermocline.gateway import metrics
from thermocline.gateway.executor.executor_pool import SessionExecutor
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.describe import Description, describe_select
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.postgres_evaluation import PostgresRows
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.lake_arm.table_rights import ReadableTables, TableRightsReader
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
        self._rights = TableRightsReader(catalog)

    def session_executor(self) -> SessionExecutor:
        """The executor of one more session."""
        return self._engine.session_executor()

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
        executor: SessionExecutor,
        login: str,
    ) -> ResultStream:
        """The answer of a SELECT, with the rights of the login. Tables in `analyzed` are read whole, at the published
        snapshot, as ANALYZE does."""
        sample = parse_sample(sql) if analyzed else None
        query = self._plan(sample.sql if sample else sql, constants, analyzed, login)
        if isinstance(query, LakeQuery):
            if sample:
                query = _sampled(query, sample.share)
            return ResultStream(self._engine.open(query, executor))
        metrics.POSTGRES_EVALUATED.inc()
        log.debug("evaluated by Postgres: %s", query.reason)
        return ResultStream(PostgresRows(query, parameters, self._engine, self._catalog, executor))

    def _plan(
        self, sql: str, constants: Sequence[Constant], analyzed: frozenset[TableName], login: str
    ) -> LakeQuery | PostgresQuery:
        names = set(table_names(parse_select(sql)))
        tables = ReadableTables(self._rights, login)
        tables.check_columns(sql, names)
        unsaid = self._catalog.read_published_snapshot if analyzed and names <= analyzed else None
        query = plan_select(sql, constants, tables.cached_table, default_snapshot=unsaid)
        tables.check_snapshots(query)
        if self._is_current(query):
            return query
        for name in names:
            tables.read_table(name)
        query = plan_select(sql, constants, tables.cached_table, default_snapshot=unsaid)
        tables.check_snapshots(query)
        return query

    @staticmethod
    def _is_current(query: LakeQuery | PostgresQuery) -> bool:
        """Whether what was known of the tables suffices: an unseen snapshot or column asks for a fresh look."""
        if isinstance(query, PostgresQuery):
            return False
        scan = query.scan
        return scan.snapshot_id is None or scan.mapped_table.lake_table.has_snapshot(scan.snapshot_id)

    def describe(self, sql: str, oids: Sequence[int], login: str) -> Description:
        """The parameters and columns of a SELECT, as Postgres itself understands it."""
        names, tables = set(table_names(parse_select(sql))), ReadableTables(self._rights, login)
        tables.check_columns(sql, names)
        for name in names:
            tables.read_table(name)
        return describe_select(sql, oids, self._catalog, tables.cached_table)

    def open_explain(self, sql: str, constants: Sequence[Constant], login: str) -> ResultStream:
        """One line in EXPLAIN's form, with rows estimated from file statistics, for `use_remote_estimate`."""
        tables = ReadableTables(self._rights, login)
        tables.check_columns(sql, set(table_names(parse_select(sql))))
        query = plan_select(sql, constants, tables.read_table, default_snapshot=self._catalog.read_published_snapshot)
        tables.check_snapshots(query)
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

    def open_relation_size(self, name: TableName, block_bytes: int, login: str) -> ResultStream:
        """Pages of a lake table, as ANALYZE asks for them."""
        _, size = self._size(name, login)
        return ResultStream(
            ConstantRows([Field(name="?column?", type_oid=20, type_size=8)], [[str(-(-size // block_bytes)).encode()]])
        )

    def open_relation_info(self, name: TableName, columns: Sequence[str], login: str) -> ResultStream:
        """Pages, rows and kind of a lake table, as ANALYZE asks for them."""
        rows, size = self._size(name, login)
        known = {
            "relpages": (Field(name="relpages", type_oid=23, type_size=4), str(-(-size // 8192)).encode()),
            "reltuples": (Field(name="reltuples", type_oid=700, type_size=4), str(rows).encode()),
            "relkind": (Field(name="relkind", type_oid=18, type_size=1), b"r"),
        }
        return ResultStream(ConstantRows([known[name][0] for name in columns], [[known[name][1] for name in columns]]))

    def _size(self, name: TableName, login: str) -> tuple[int, int]:
        mapped_table: MappedTable = ReadableTables(self._rights, login).read_table(name)
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
