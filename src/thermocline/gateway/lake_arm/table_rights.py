"""What a lake login may read: the SELECT rights of its role on the heap, and snapshots that are published or pinned.

Postgres is asked at the time of reading; an answer is cached for a second. Columns without the right are left out of
the table that a statement is planned on, so no plan can read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from thermocline.core.names import TableName
from thermocline.errors import LakeReadDenied, LakeTableNotServed, RowSecurityInLake, UnknownSnapshot
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.sql.column_mapping import ColumnsByName, MappedTable
from thermocline.gateway.sql.pushdown.select import LakeQuery, PostgresQuery, parse_select
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.runtime.memory.bounded_cache import BoundedCache

_CACHE_SECONDS = 1.0
_CACHE_BYTES = 4 << 20
_ENTRY_BYTES = 512
_FIELD_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRights:
    """What one login may read of one lake table."""

    heap: TableName
    reads_whole_table: bool
    field_ids: frozenset[int]
    has_row_security: bool


class TableRightsReader:
    """Reads rights and served snapshots from Postgres, for all sessions."""

    def __init__(self, catalog: CatalogReader) -> None:
        self.catalog = catalog
        self._rights: BoundedCache[tuple[str, TableName], TableRights] = BoundedCache(
            max_bytes=_CACHE_BYTES, seconds=_CACHE_SECONDS
        )
        self._served: BoundedCache[tuple[TableName, int], bool] = BoundedCache(
            max_bytes=_CACHE_BYTES, seconds=_CACHE_SECONDS
        )

    def read_rights(self, login: str, name: TableName) -> TableRights:
        """Raises where the login may read nothing of the table."""
        rights = self._rights.read((login, name))
        if rights is None:
            rights = self._read_rights(login, name)
            size_bytes = _ENTRY_BYTES + _FIELD_BYTES * len(rights.field_ids)
            self._rights.put((login, name), rights, size_bytes)
        if not rights.reads_whole_table and not rights.field_ids:
            raise LakeReadDenied(f"permission denied for table {rights.heap}")
        if rights.has_row_security:
            # The login is the view's owner, whoever reads: whom the policies are for is not known here.
            raise RowSecurityInLake(
                f"{rights.heap} has row-level security, which cannot be applied to rows in the lake."
            )
        return rights

    def check_served(self, name: TableName, snapshot_id: int) -> None:
        """Raises unless the snapshot is in the published history or pinned: a commit of the lake that was never
        published holds rows that Postgres may still hold, or that were taken back."""
        if self._served.read((name, snapshot_id)):
            return
        values: dict[str, str | int | list[int]] = {
            "schema": name.schema,
            "table": name.table,
            "snapshot_id": snapshot_id,
        }
        if not self.catalog.read_named("is_served", values)[0].is_served:
            raise UnknownSnapshot(f"The lake table of {name} has no snapshot {snapshot_id}.")
        self._served.put((name, snapshot_id), True, _ENTRY_BYTES)

    def _read_rights(self, login: str, name: TableName) -> TableRights:
        values: dict[str, str | int | list[int]] = {"login": login, "schema": name.schema, "table": name.table}
        rows = self.catalog.read_named("table_rights", values)
        if not rows:
            raise LakeTableNotServed(f"There is no lake table for {name}.")
        (row,) = rows
        return TableRights(
            heap=TableName(row.schema_name, row.table_name),
            reads_whole_table=row.reads_whole_table,
            field_ids=frozenset(row.field_ids),
            has_row_security=row.has_row_security,
        )


class ReadableTables:
    """The lake tables as one login may read them."""

    def __init__(self, rights: TableRightsReader, login: str) -> None:
        self._rights = rights
        self._catalog = rights.catalog
        self._login = login

    def cached_table(self, name: TableName) -> MappedTable:
        rights = self._rights.read_rights(self._login, name)
        return _readable_part(self._catalog.cached_table(name), rights)

    def read_table(self, name: TableName) -> MappedTable:
        rights = self._rights.read_rights(self._login, name)
        return _readable_part(self._catalog.read_table(name), rights)

    def check_columns(self, sql: str, names: Iterable[TableName]) -> None:
        """Raise where the statement may mean a column that the login may not read. A plan never reads one: this gives
        Postgres' own error instead of an unknown column."""
        for name in names:
            rights = self._rights.read_rights(self._login, name)
            if rights.reads_whole_table:
                continue
            table = self._catalog.cached_table(name)
            hidden = {
                known
                for column in table.columns.values()
                if column.field.field_id not in rights.field_ids
                for known in (column.name, column.field.name)
            }
            if hidden and _may_name(parse_select(sql), hidden):
                raise LakeReadDenied(f"permission denied for table {rights.heap}")

    def check_snapshots(self, query: LakeQuery | PostgresQuery) -> None:
        """Raise unless every snapshot that the query reads is served."""
        for scan in (query.scan,) if isinstance(query, LakeQuery) else query.scans:
            if scan.snapshot_id is not None:
                self._rights.check_served(scan.mapped_table.name, scan.snapshot_id)


def _readable_part(table: MappedTable, rights: TableRights) -> MappedTable:
    if rights.reads_whole_table:
        return table
    columns = (column for column in table.columns.values() if column.field.field_id in rights.field_ids)
    return replace(table, columns=ColumnsByName(columns))


def _may_name(tree: exp.Select, hidden: set[str]) -> bool:
    """Whether the statement names one of the columns, all of them, or a whole row."""
    tables = {fold_identifier(table.this) for table in tree.find_all(exp.Table)}
    aliases = {fold_identifier(alias.this) for alias in tree.find_all(exp.TableAlias) if alias.this}
    named = {fold_identifier(node.this) for node in tree.find_all(exp.Column) if isinstance(node.this, exp.Identifier)}
    has_star = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    return has_star or bool(named & (hidden | tables | aliases))
