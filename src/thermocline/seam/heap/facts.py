"""What Postgres says about the user's table: columns, keys, partitioning, bounds, grants. Reads only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row, scalar_row

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.core.columns import HeapColumn
from thermocline.core.names import TableName
from thermocline.errors import CannotRegister, TableNotFound
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.seam", "queries/facts.sql")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a composite type"}
_KINDS |= {"i": "an index", "I": "an index", "t": "a TOAST table"}
_ENDS = {"MINVALUE": AXIS_MIN, "MAXVALUE": AXIS_MAX}
_C_LOCALES = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8", "C.UTF8"})
_BOUND = re.compile(
    r"FOR VALUES FROM \((?P<lo>MINVALUE|'(?:[^']|'')*'|-?\d+)\) TO \((?P<hi>MAXVALUE|'(?:[^']|'')*'|-?\d+)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A column of the primary key with the equality its index uses."""

    name: str
    operator_schema: str
    operator: str
    is_hashable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A privilege on the heap, of a role (`None` = everybody), on the table or one column."""

    grantee: str | None
    privilege: str
    grantable: bool
    column: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapPartition:
    """A range partition and its bounds on the axis: lo <= key < hi."""

    oid: int
    name: TableName
    lo: int
    hi: int
    is_permanent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapFacts:
    """The user's table as it stands now."""

    name: TableName
    oid: int
    kind: str
    persistence: str
    has_row_security: bool
    owner: str
    is_partition: bool
    is_system: bool
    strategy: str | None
    partition_attnums: tuple[int, ...]
    partition_key_text: str | None
    default_partition: str | None
    columns: tuple[HeapColumn, ...]
    primary_key: tuple[KeyColumn, ...]
    primary_key_is_deferrable: bool
    inbound_foreign_keys: tuple[str, ...]
    acting_foreign_keys: tuple[str, ...]
    grants: tuple[Grant, ...]
    comment: str | None = None

    def column(self, name: str) -> HeapColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def partition_column(self) -> HeapColumn | None:
        """The single plain column the table is range-partitioned by, or `None`."""
        if self.strategy != "r" or len(self.partition_attnums) != 1:
            return None
        return next((column for column in self.columns if column.attnum == self.partition_attnums[0]), None)


def read_heap(conn: Connection, name: TableName, identity: tuple[str, ...] | None = None) -> HeapFacts:
    """The table's facts; refuses what is not a table at all. With `identity`, its key is the unique one on exactly
    these columns."""
    where = {"schema": name.schema, "table": name.table}
    row = rows_by_name(conn).execute(_QUERIES["relation"], where).fetchone()
    if row is None:
        raise TableNotFound(f"There is no table {name}.")
    if row.kind in _KINDS:
        raise CannotRegister(f"{name} is {_KINDS[row.kind]}, not a table.", hint="Register the table behind it.")
    identity_list = None if identity is None else list(identity)
    with conn.cursor(row_factory=class_row(KeyColumn)) as cursor:
        key = cursor.execute(_QUERIES["primary_key"], {"oid": row.oid, "identity": identity_list}).fetchall()
    facts = {**row._asdict(), "partition_attnums": tuple(row.partition_attnums or ())}
    return HeapFacts(
        **facts,
        name=name,
        columns=_read_columns(conn, name, row.oid),
        primary_key=tuple(key),
        inbound_foreign_keys=_read_sentences(conn, "inbound_foreign_keys", row.oid),
        acting_foreign_keys=_read_sentences(conn, "acting_foreign_keys", row.oid),
        grants=read_grants(conn, row.oid),
    )


def read_grants(conn: Connection, relation_oid: int) -> tuple[Grant, ...]:
    """Privileges on a table or view that its owner gave to others, those on columns included."""
    with conn.cursor(row_factory=class_row(Grant)) as cursor:
        return tuple(cursor.execute(_QUERIES["grants"], {"oid": relation_oid}).fetchall())


def _read_sentences(conn: Connection, query: str, oid: int) -> tuple[str, ...]:
    with conn.cursor(row_factory=scalar_row) as cursor:
        return tuple(cursor.execute(_QUERIES[query], {"oid": oid}).fetchall())


def _read_columns(conn: Connection, name: TableName, oid: int) -> tuple[HeapColumn, ...]:
    where = {
        "oid": oid,
        "schema": name.schema,
        "table": name.table,
        "database_collation_is_c": _database_collation_is_c(conn),
    }
    with conn.transaction():
        # An empty search_path makes format_type() and pg_get_expr() qualify every name outside pg_catalog.
        previous = conn.execute("select current_setting('search_path'), set_config('search_path', '', true)").fetchone()
        assert previous is not None
        rows = rows_by_name(conn).execute(_QUERIES["columns"], where).fetchall()
        conn.execute("select set_config('search_path', %s, true)", [previous[0]])
    return tuple(HeapColumn(**{**row._asdict(), "made_of": tuple(row.made_of)}) for row in rows)


def _database_collation_is_c(conn: Connection) -> bool:
    """Whether the database's default collation orders text by bytes, as the lake does."""
    row = rows_by_name(conn).execute(_QUERIES["database_collation"]).fetchone()
    assert row is not None
    match row.provider:
        case "b":
            return row.locale in _C_LOCALES
        case "i":
            return False
        case _:
            return row.collate in _C_LOCALES


def read_partitions(conn: Connection, heap: HeapFacts, key_type: KeyType) -> tuple[HeapPartition, ...]:
    """The range partitions in the order of their bounds; the DEFAULT partition is left out."""
    found = rows_by_name(conn).execute(_QUERIES["partitions"], {"oid": heap.oid}).fetchall()
    rows = [row for row in found if row.bounds != "DEFAULT"]
    bounds = []
    for row in rows:
        match = _BOUND.fullmatch(row.bounds)
        if row.kind != "r":
            raise CannotRegister(
                f"Partition {TableName(row.schema, row.name)} of {heap.name} is itself partitioned or foreign.",
                hint="Only plain partitions can move to the lake; flatten it first.",
            )
        if match is None:
            partition = TableName(row.schema, row.name)
            raise CannotRegister(f"The bounds of partition {partition} cannot be read: {row.bounds}.")
        bounds += [match["lo"], match["hi"]]
    ends = _read_axis(conn, key_type, bounds)
    partitions = [
        HeapPartition(oid=row.oid, name=TableName(row.schema, row.name), lo=lo, hi=hi, is_permanent=row.is_permanent)
        for row, lo, hi in zip(rows, ends[::2], ends[1::2], strict=True)
    ]
    if beyond := next((partition for partition in partitions if partition.lo >= partition.hi), None):
        raise CannotRegister(
            f"Partition {beyond.name} of {heap.name} lies at the very end of its key's range, beyond the axis.",
            hint="Join it with the partition next to it; MINVALUE and MAXVALUE stand for the infinities already.",
        )
    return tuple(sorted(partitions, key=lambda partition: partition.lo))


def _read_axis(conn: Connection, key_type: KeyType, bounds: list[str]) -> list[int]:
    """Bounds on the axis. The server itself reads its literals, so that no date is parsed twice in two ways."""
    literals = [
        None if text in _ENDS else text[1:-1].replace("''", "'") if text.startswith("'") else text for text in bounds
    ]
    query = sql.SQL(_QUERIES["positions_on_axis"]).format(
        key_type=sql.SQL(key_type.value), literals=sql.Literal(literals)
    )
    values = [row[0] for row in conn.execute(query)]
    return [_ENDS[text] if text in _ENDS else int(value) for text, value in zip(bounds, values, strict=True)]
