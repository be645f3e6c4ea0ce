"""Adopting a lake that an earlier unregistration left: what fits, where the cut-line may start, and what becomes of
each partition.

Up to the line at which it was left the lake is complete, but for partitions that the heap kept: while nobody was
registered the heap was written alone, so of those the heap has the truth. The new cut-line starts below the lowest of
them; everything above is read from the heap at once, and tiering (`ops/tier/adopted_lake.py`) compares each with what
the lake has of it, and copies only those that differ. Partitions that were made below that line since are carried into
the delta, as any partition made below the cut-line is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thermocline.catalog.unregistered_lakes import KeptLake, KeptSettings, PastPartition, find_kept
from thermocline.core.axis import AXIS_MIN, KeyType, render_axis
from thermocline.core.columns import LakeColumn, plan_lake_columns
from thermocline.core.names import TableName
from thermocline.core.types import PrimitiveType
from thermocline.errors import LakeNotAdoptable
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import CreatedLake
from thermocline.lake.read.table_metadata import LakeTable, read_lake_table
from thermocline.runtime.pg import Connection
from thermocline.seam.heap.facts import HeapFacts, HeapPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A lake to adopt: `t` is where the cut-line starts, `until` the line below which the lake may hold rows of the
    heap's partitions."""

    lake: CreatedLake
    snapshot: int
    columns: tuple[LakeColumn, ...]
    layout: str
    profile: str | None
    t: int
    until: int | None
    r: int | None
    past: tuple[PastPartition, ...]
    late: tuple[HeapPartition, ...]
    settings: KeptSettings | None


def plan_adoption(
    conn: Connection,
    heap: HeapFacts,
    tier_key: str,
    key_type: KeyType,
    partitions: Sequence[HeapPartition],
    incarnation: str | None,
) -> Adoption:
    """Check that the lake is this table's and unchanged since it was left; refuse with the first reason."""
    name = heap.name
    found = lake_catalog().read_metadata_location(conn, name)
    kept = find_kept(conn, name.schema, name.table)
    if found is None:
        raise LakeNotAdoptable(
            f"There is no lake table {name} to adopt.", hint="Leave --adopt-lake out; a new one is made."
        )
    if kept is None:
        raise LakeNotAdoptable(
            (
                f"The lake table {name} was not left by an unregistration here, so nobody knows up to where it is "
                "complete."
            ),
            hint="Register under another name, or drop the lake table.",
        )
    same = heap.oid == kept.heap_oid
    lake = read_lake_table(found)
    _check_incarnation(kept, lake, same=same, incarnation=incarnation)
    _check_key(kept, heap, tier_key, key_type)
    columns = _fit_columns(kept, lake, heap, same=same)
    _check_layout(kept, lake)
    snapshot = _published_head(kept, lake)
    t, late = _plan_lines(kept, partitions, same=same)
    _check_nothing_hidden(kept, found, snapshot, t, partitions, same=same)
    return Adoption(
        lake=CreatedLake(uuid=kept.uuid, location=kept.location, metadata_location=found),
        snapshot=snapshot,
        columns=columns,
        layout=kept.lake_partition,
        profile=kept.profile,
        t=t,
        until=kept.t if t < kept.t else None,
        r=kept.r,
        past=tuple(p for p in kept.partitions if p.is_dropped and p.hi <= t),
        late=late,
        settings=kept.settings,
    )


def find_rows_the_heap_lacks(name: TableName, adoption: Adoption, tier_key: str) -> int | None:
    """A key of a row that only the lake holds; keep-heap has none."""
    field_id = next(column.field_id for column in adoption.columns if column.name == tier_key)
    return _find_key_outside(
        (adoption.lake.metadata_location, adoption.snapshot, name, field_id), AXIS_MIN, adoption.t, ()
    )


def _check_incarnation(kept: KeptLake, lake: LakeTable, *, same: bool, incarnation: str | None) -> None:
    if lake.uuid != str(kept.uuid):
        raise LakeNotAdoptable(
            f"The lake table {kept.heap} is {lake.uuid}, and {kept.uuid} was left: it was made anew by others."
        )
    if not same and incarnation != str(kept.uuid):
        raise LakeNotAdoptable(
            (
                f"The lake of {kept.heap} was written by another incarnation of the table: it was dropped and "
                "made anew, or restored."
            ),
            hint=(
                f"When they are the same rows, give --incarnation {kept.uuid} too; else drop the lake: "
                "`unregister --drop-lake`."
            ),
        )


def _check_key(kept: KeptLake, heap: HeapFacts, tier_key: str, key_type: KeyType) -> None:
    found = tuple(column.name for column in heap.primary_key)
    if set(found) != set(kept.pk):
        raise LakeNotAdoptable(
            f"The key of {heap.name} is ({', '.join(found)}), and its lake was left with ({', '.join(kept.pk)})."
        )
    if (tier_key, key_type) != (kept.tier_key, kept.key_type):
        raise LakeNotAdoptable(
            f"The tier key of {heap.name} is {tier_key} ({key_type.value}), its lake's is {kept.tier_key} "
            f"({kept.key_type.value})."
        )


def _fit_columns(kept: KeptLake, lake: LakeTable, heap: HeapFacts, *, same: bool) -> tuple[LakeColumn, ...]:
    """The heap's columns, each with the field it has in the lake."""
    held = {column.name: (column, attnum) for column, attnum in zip(kept.columns, kept.attnums, strict=True)}
    fields = {field.field_id: field for field in lake.fields}
    wanted = plan_lake_columns(heap.columns, tuple(column.name for column in heap.primary_key))
    fitted = []
    for column, now in zip(wanted, heap.columns, strict=True):
        old, attnum = held.get(column.name, (None, 0))
        if old is None or old.field_id not in fields:
            raise LakeNotAdoptable(
                f"Column {column.name} of {heap.name} is not in the lake.",
                hint=(
                    "Drop or rename the column, register, and make the change again: changes of a registered "
                    "table are followed."
                ),
            )
        if same and attnum != now.attnum:
            raise LakeNotAdoptable(
                f"Column {column.name} of {heap.name} was dropped and added again; the lake holds its old values."
            )
        kind = fields[old.field_id]
        stored = str(PrimitiveType(kind=kind.kind, precision=kind.precision, scale=kind.scale))
        as_before = old.form == "native" or old.pg_type == column.pg_type
        if (old.lake_type, old.form) != (column.lake_type, column.form) or stored != old.lake_type or not as_before:
            raise LakeNotAdoptable(
                f"Column {column.name} of {heap.name} is {column.pg_type}; the lake holds {old.pg_type} as {stored}."
            )
        fitted.append(
            replace(
                old, pg_type=column.pg_type, base_type=column.base_type, required=column.required, missing=kind.missing
            )
        )
    return tuple(fitted)


def _check_layout(kept: KeptLake, lake: LakeTable) -> None:
    spec = lake.metadata.spec()
    tier_key = next(column.field_id for column in kept.columns if column.name == kept.tier_key)
    found = [(field.source_id, str(field.transform)) for field in spec.fields if str(field.transform) != "void"]
    if found != ([] if kept.lake_partition == "none" else [(tier_key, kept.lake_partition)]):
        raise LakeNotAdoptable(
            f"The lake of {kept.heap} is no longer partitioned by {kept.lake_partition}, as it was left."
        )


def _published_head(kept: KeptLake, lake: LakeTable) -> int:
    """The head, when nothing but rewrites of the same rows came after what was published."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in lake.metadata.snapshots}
    head = at = lake.metadata.current_snapshot_id
    while at is not None and at != kept.s and at in by_id:
        summary = by_id[at].summary
        if summary is None or summary.operation.value != "replace":
            break
        at = by_id[at].parent_snapshot_id
    if head is None or at != kept.s:
        raise LakeNotAdoptable(
            (
                f"The lake of {kept.heap} was left at snapshot {kept.s}, and somebody else's rows were committed "
                f"since (snapshot {at})."
            ),
            hint="Roll the lake table back to that snapshot, or register under another name.",
        )
    return head


def _is_whole(kept: KeptLake, partition: HeapPartition, *, same: bool) -> bool:
    """Whether the heap had every row of this partition's range when the table was unregistered."""
    return any(
        p.is_whole
        and (p.lo, p.hi) == (partition.lo, partition.hi)
        and (p.relid == partition.oid if same else p.name == partition.name)
        for p in kept.partitions
    )


def _plan_lines(
    kept: KeptLake, partitions: Sequence[HeapPartition], *, same: bool
) -> tuple[int, tuple[HeapPartition, ...]]:
    """Where the cut-line starts, and the partitions below it that the lake knows nothing of."""
    old = [p for p in partitions if p.lo < kept.t]
    t = min((p.lo for p in old if _is_whole(kept, p, same=same)), default=kept.t)
    late = tuple(p for p in old if not _is_whole(kept, p, same=same))
    kept_oids = {p.relid for p in kept.partitions if not p.is_dropped}
    for partition in late:
        if partition.hi > t or (same and partition.oid in kept_oids):
            raise LakeNotAdoptable(
                f"Partition {partition.name} lies below {render_axis(kept.key_type, kept.t)}, up to where the "
                "lake is complete,"
                " and the heap may have only some rows of its range.",
                hint="Detach it, register, and insert its rows through the seam.",
            )
    return t, late


def _check_nothing_hidden(
    kept: KeptLake, metadata_location: str, snapshot: int, t: int, partitions: Sequence[HeapPartition], *, same: bool
) -> None:
    """Refuse when the lake alone holds rows at or above the new cut-line: nobody would read them."""
    if t == kept.t:
        return
    field_id = next(column.field_id for column in kept.columns if column.name == kept.tier_key)
    whole = [p for p in partitions if _is_whole(kept, p, same=same)]
    key = _find_key_outside(
        (metadata_location, snapshot, kept.heap, field_id), t, kept.t, [(p.lo, p.hi) for p in whole]
    )
    if key is not None:
        lowest = min(whole, key=lambda p: p.lo)
        raise LakeNotAdoptable(
            (
                f"The lake alone holds rows at {render_axis(kept.key_type, key)}, above partition {lowest.name}, "
                "which the heap still has."
            ),
            hint=f"Detach {lowest.name}, register, and insert its rows through the seam.",
        )


def _find_key_outside(
    lake: tuple[str, int, TableName, int], low: int, high: int, ranges: Sequence[tuple[int, int]]
) -> int | None:
    """A tier key of the lake (metadata, snapshot, name, field) within [low, high) and in none of the ranges."""
    # The kernels take seconds to load, and a registration that adopts no lake needs none of them.
    from thermocline.ops.data_files import list_files
    from thermocline.spark.kernels.tier_keys import find_key_outside

    return find_key_outside(list_files(*lake), lake[-1], low, high, ranges)
