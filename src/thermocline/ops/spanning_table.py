"""A registered table put together from the catalog and from what Postgres says of it now; refuses when the two no
longer fit."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog.tables import RegisteredTable, find_table
from thermocline.core.names import TableName
from thermocline.errors import HeapChanged
from thermocline.runtime.pg import Connection
from thermocline.seam.heap.facts import HeapFacts, read_heap
from thermocline.seam.objects import SeamDefinition, SeamObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningTable:
    """The registration, and the seam with the heap as it stands."""

    registered: RegisteredTable
    seam: SeamDefinition

    @property
    def name(self) -> TableName:
        return self.registered.name

    @property
    def heap(self) -> HeapFacts:
        return self.seam.heap


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
    heap = read_heap(conn, name, registered.pk)
    check_same_heap(registered, heap)
    seam = SeamDefinition(
        objects=objects_of(registered),
        heap=heap,
        table_id=registered.id,
        tier_key=registered.tier_key,
        key_type=registered.key_type,
        lake_columns=registered.columns,
        mode=registered.mode,
    )
    return SpanningTable(registered=registered, seam=seam)


def check_same_heap(registered: RegisteredTable, heap: HeapFacts) -> None:
    """Refuse a table that was made anew under the same name, or whose columns or key are not those that were
    registered."""
    if heap.oid != registered.heap_oid:
        raise HeapChanged(f"{registered.name} was dropped and made anew since it was registered.")
    # The number too: a column that was dropped and added again has its name and type, but not its old values.
    held = {c.name: (c.pg_type, attnum) for c, attnum in zip(registered.columns, registered.attnums, strict=True)}
    found = {c.name: (c.pg_type, c.attnum) for c in heap.columns}
    if changed := [name for name in (*found, *held) if held.get(name) != found.get(name)]:
        raise HeapChanged(
            f"Column {changed[0]} of {registered.name} is not as it was registered.",
            hint="Undo the change, or unregister and register again.",
        )
    if tuple(column.name for column in heap.primary_key) != registered.pk:
        raise HeapChanged(f"The primary key of {registered.name} is not the one that was registered.")
    if heap.default_partition != registered.spill.table:
        raise HeapChanged(
            f"The spill {registered.spill} is no longer the DEFAULT partition of {registered.name}.",
            hint="Attach it again as DEFAULT, or unregister and register again.",
        )
    if heap.has_row_security:
        raise HeapChanged(
            f"{registered.name} has row-level security since it was registered, which the lake cannot apply.",
            hint="Disable it, or unregister the table.",
        )
