"""A registered table put together from the catalog and from what Postgres says of it now; refuses when the two no longer fit."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog.tables import RegisteredTable, find_table
from thermocline.core.names import TableName
from thermocline.errors import HeapChanged
from thermocline.hot.facts import HeapFacts, read_heap
from thermocline.hot.seam import SeamDefinition, SeamObjects
from thermocline.pg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningTable:
    """The registration, the heap as it stands, and the seam between them."""

    registered: RegisteredTable
    heap: HeapFacts
    seam: SeamDefinition

    @property
    def name(self) -> TableName:
        return self.registered.name


def objects_of(table: RegisteredTable) -> SeamObjects:
    """The names of what registration made."""
    return SeamObjects(
        heap=table.name,
        seam=TableName(table.seam_schema, table.name.table),
        delta=TableName("thermocline_delta", table.object_name),
        lake=TableName("thermocline_lake", table.object_name),
        spill=table.spill,
        functions=table.object_name,
    )


def read_spanning(conn: Connection, name: TableName) -> SpanningTable:
    registered = find_table(conn, name)
    heap = read_heap(conn, name)
    check_same_heap(registered, heap)
    seam = SeamDefinition(
        objects=objects_of(registered),
        heap=heap,
        table_id=registered.id,
        tier_key=registered.tier_key,
        key_type=registered.key_type,
        lake_columns=registered.columns,
        lake_schema=registered.lake_namespace,
        lake_table=registered.lake_name,
    )
    return SpanningTable(registered=registered, heap=heap, seam=seam)


def check_same_heap(registered: RegisteredTable, heap: HeapFacts) -> None:
    """Refuse a table that was made anew under the same name, or whose columns or key are not those that were registered."""
    if heap.oid != registered.heap_oid:
        raise HeapChanged(f"{registered.name} was dropped and made anew since it was registered.")
    held = [(column.name, column.pg_type) for column in registered.columns]
    found = [(column.name, column.pg_type) for column in heap.columns]
    if held != found:
        changed = next((name for name, _ in dict.fromkeys((*found, *held)) if (name in dict(held)) != (name in dict(found))), None)
        changed = changed or next(name for name, kind in found if dict(held).get(name) != kind)
        raise HeapChanged(
            f"Column {changed} of {registered.name} is not as it was registered.", hint="Undo the change, or unregister and register again."
        )
    if tuple(column.name for column in heap.primary_key) != registered.pk:
        raise HeapChanged(f"The primary key of {registered.name} is not the one that was registered.")
