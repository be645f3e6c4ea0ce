"""Following the heap's columns: what an event trigger did not follow at once, and the lake's own schema behind it.

    heap changed → delta, functions and seam, in one transaction
    → a metadata file written → catalog swapped, foreign table and seam, in one transaction

Between the two transactions the seam itself knows what lake rows read as, so nothing waits for the second. The lake's
schema changes by a compare-and-swap of the catalog row, in the transaction that updates the seam; a crash leaves at
most one metadata file that nobody points at.
"""

from __future__ import annotations

import time
from contextlib import suppress

from thermocline.catalog.tables import RegisteredTable, find_table, insert_event
from thermocline.core.plan.schema_change import FieldChange, LakeSchemaRefusal, plan_lake_schema, render_change
from thermocline.errors import HeapChanged, LakeTableMissing, LostRace, SchemaNotFollowed, ThermoclineError
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.evolve_schema import fields_of, remove_evolved, write_evolved
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.ops.schema.follow_grants import follow_grants
from thermocline.ops.schema.follow_owner import follow_owner
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.schema_changes import (
    apply_lake_columns,
    follow_heap_columns,
    note_seam,
    read_missing_values,
    read_pending_change,
    renumber_new_fields,
)


def follow_schema(conn: Connection, registered: RegisteredTable, settings: Settings) -> tuple[str, ...]:
    """Bring everything to the heap's owner, grants and columns, under the table's lock; what was done, one sentence
    each."""
    note_seam(conn, registered.id)
    right_changes = (*follow_owner(conn, registered, settings), *follow_grants(conn, registered, settings))
    seen = read_pending_change(conn, registered.id)
    column_changes: tuple[str, ...] = ()
    if seen.heap_changed:
        column_changes = follow_heap_columns(conn, registered.id, registered.heap_oid, settings.lock_timeout_ms)
        fault_point("schema-followed")
    if seen.lake_behind or column_changes:
        column_changes += _apply_lake(conn, find_table(conn, registered.name), settings)
    return right_changes + column_changes


def check_followed(conn: Connection, table: RegisteredTable) -> None:
    """Refuse to go on when the columns changed since the table was read; the caller holds a lock that keeps them as
    they are."""
    seen = read_pending_change(conn, table.id)
    if seen.heap_changed or seen.lake_behind or find_table(conn, table.name).columns != table.columns:
        raise SchemaNotFollowed(f"The columns of {table.name} changed meanwhile; the next cycle follows them.")


def _apply_lake(conn: Connection, registered: RegisteredTable, settings: Settings) -> tuple[str, ...]:
    catalog = lake_catalog()
    before = catalog.read_metadata_location(conn, registered.lake)
    if before is None:
        raise LakeTableMissing(f"The lake table of {registered.name} is not in its catalog any more.")
    metadata = read_metadata_file(before)
    changes = _plan(conn, registered, metadata)
    columns = find_table(conn, registered.name).columns
    missing = read_missing_values(conn, registered.id)
    after = write_evolved(metadata, before, columns, missing, now_ms=int(time.time() * 1000)) if changes else before
    fault_point("schema-written")
    try:
        with short_locks(
            conn, settings.lock_timeout_ms, [registered.heap_oid], f"rebuild the seam of {registered.name}"
        ):
            if after != before and not catalog.swap_metadata_location(
                conn, registered.lake, before=before, after=after
            ):
                raise LostRace(
                    f"The lake table of {registered.name} moved since it was looked at; its schema is as it was."
                )
            apply_lake_columns(conn, registered.id)
            sentences = tuple(render_change(change) for change in changes)
            if sentences:
                insert_event(conn, registered.id, "schema", f"{registered.name}: {'; '.join(sentences)}.")
    except BaseException:
        if (
            after != before
            and not conn.broken
            and (head := catalog.read_metadata_location(conn, registered.lake)) not in (after, None)
        ):
            with suppress(ThermoclineError, OSError):  # the reason of the failure counts; pruning takes the file later
                remove_evolved(after, head)
        raise
    fault_point("schema-swapped")
    return sentences


def _plan(conn: Connection, registered: RegisteredTable, metadata: dict[str, object]) -> tuple[FieldChange, ...]:
    """The lake's changes; columns whose numbers others have used meanwhile get new ones first."""
    last = metadata["last-column-id"]
    assert isinstance(last, int)
    plan = plan_lake_schema(fields_of(metadata), last, registered.columns)
    if isinstance(plan, LakeSchemaRefusal):
        renumber_new_fields(conn, registered.id, last + 1)
        plan = plan_lake_schema(fields_of(metadata), last, find_table(conn, registered.name).columns)
    if isinstance(plan, LakeSchemaRefusal):
        raise HeapChanged(f"The lake of {registered.name} cannot follow: {plan.reason}.")
    return plan
