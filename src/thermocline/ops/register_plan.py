"""What registering a table will write, decided before anything is written; or the one reason why it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from thermocline.catalog import tables
from thermocline.core.axis import KeyType, parse_duration, render_axis
from thermocline.core.coltypes import LakeColumn, plan_lake_columns, why_not_held
from thermocline.core.layout import parse_layout, plan_layout
from thermocline.core.names import MAX_IDENTIFIER_BYTES, TableName, joined_name, suffixed
from thermocline.core.plan.tiering import render_gap
from thermocline.core.refusals import key_type_of, why_not_partitioned
from thermocline.errors import CannotRegister, MissingPrivilege, UsageError
from thermocline.hot.facts import HeapFacts, HeapPartition, read_partitions
from thermocline.hot.seam import HIDDEN_COLUMNS, SeamObjects
from thermocline.pg import Connection
from thermocline.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """What a person asked for; `None` is the default."""

    table: TableName
    tiering_lag: str | None = None
    reclaim_lag: str | None = None
    lake_partition: str | None = None
    seam_schema: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterPlan:
    """Everything registration will write."""

    heap: HeapFacts
    partitions: tuple[HeapPartition, ...]
    key: str
    key_type: KeyType
    columns: tuple[LakeColumn, ...]
    tiering_lag: int
    reclaim_lag: int
    layout: str
    objects: SeamObjects
    t: int


def plan_registration(conn: Connection, heap: HeapFacts, request: RegisterRequest, settings: Settings) -> RegisterPlan:
    """Check everything that can be checked without writing; refuse with the first reason."""
    check_heap(heap)
    key = heap.partition_column
    assert key is not None
    key_type = key_type_of(key.base_type)
    if key_type is None:
        raise CannotRegister(
            f"{heap.name} is partitioned by {key.name}, whose type {key.pg_type} cannot be a tier key.",
            hint="A tier key is smallint, integer, bigint, date, timestamp or timestamptz.",
        )
    partitions = read_partitions(conn, heap, key_type)
    if not partitions:
        raise CannotRegister(f"{heap.name} has no partitions yet.", hint="Create its first partition, then register it.")
    tiering_lag = parse_duration(key_type, settings.tiering_lag if request.tiering_lag is None else request.tiering_lag)
    reclaim = settings.reclaim_lag if request.reclaim_lag is None else request.reclaim_lag
    bounds = [(p.lo, p.hi) for p in partitions]
    objects = plan_objects(heap.name, request.seam_schema)
    check_names_free(conn, heap, objects)
    return RegisterPlan(
        heap=heap,
        partitions=partitions,
        key=key.name,
        key_type=key_type,
        columns=plan_lake_columns(heap.columns, tuple(c.name for c in heap.primary_key)),
        tiering_lag=tiering_lag,
        reclaim_lag=tiering_lag if reclaim is None else parse_duration(key_type, reclaim),
        layout=plan_layout(key_type, bounds) if request.lake_partition is None else parse_layout(key_type, request.lake_partition),
        objects=objects,
        t=partitions[0].lo,
    )


def plan_objects(heap: TableName, seam_schema: str | None) -> SeamObjects:
    """The names of everything made for a table. No table's spill can have another's delta's name: `__` joins once in those."""
    wished = suffixed(heap.schema, "all") if seam_schema is None else seam_schema
    if not 0 < len(wished.encode()) <= MAX_IDENTIFIER_BYTES or "\x00" in wished or wished.startswith("pg_"):
        raise UsageError(
            f"{wished!r} cannot be the name of a schema.",
            hint=f"Give --seam-schema a name of 1 to {MAX_IDENTIFIER_BYTES} bytes without pg_.",
        )
    joined = joined_name(heap)
    return SeamObjects(
        heap=heap,
        seam=TableName(wished, heap.table),
        delta=TableName("thermocline_delta", joined),
        lake=TableName("thermocline_lake", joined),
        spill=TableName("thermocline_delta", suffixed(joined, "_spill")),
        functions=joined,
    )


def check_names_free(conn: Connection, heap: HeapFacts, objects: SeamObjects) -> None:
    """Refuse when something has the name of what will be made."""
    for taken in (objects.seam, objects.delta, objects.lake, objects.spill):
        where = [taken.schema, taken.table]
        query = "select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s"
        if conn.execute(query, where).fetchone() is not None:
            raise CannotRegister(f"A relation {taken} exists already.", hint="Rename or drop it, or give another --seam-schema.")
    if tables.read_lake_metadata_location(conn, heap.name.schema, heap.name.table):
        raise CannotRegister(
            f"The lake has a table {heap.name} already, from an earlier registration.",
            hint="It may hold the only copy of that history; take it up or drop it before registering anew.",
        )


def check_heap(heap: HeapFacts) -> None:
    """Refuse a table that cannot span, with the reason and what to do."""
    for reason, hint in (*_reasons_of_kind(heap), *_reasons_of_shape(heap), *_reasons_of_columns(heap)):
        raise CannotRegister(f"{heap.name} {reason}.", hint=hint)


def _reasons_of_kind(heap: HeapFacts) -> Iterator[tuple[str, str]]:
    if heap.persistence != "p":
        kind = "unlogged" if heap.persistence == "u" else "temporary"
        yield f"is {kind}", "Only permanent tables can span; ALTER TABLE … SET LOGGED makes an unlogged one permanent."
    if heap.is_system:
        yield "is a system table", "Register a table of your own."
    if heap.is_partition:
        yield "is itself a partition", "Register the table it belongs to."
    expression = 0 in heap.partition_attnums
    if reason := why_not_partitioned(heap.strategy, heap.partition_key_text, len(heap.partition_attnums), expression):
        yield f"cannot be tiered: {reason}", "Tiering moves whole partitions: PARTITION BY RANGE on one plain column."


def _reasons_of_shape(heap: HeapFacts) -> Iterator[tuple[str, str]]:
    if heap.has_row_security:
        yield "has row-level security, which the lake cannot apply", "Disable it, or keep this table in Postgres alone."
    if heap.default_partition:
        yield (
            f"has a DEFAULT partition of its own, {heap.default_partition}",
            "Move its rows into range partitions and drop it; Thermocline needs that place for its spill.",
        )
    if not heap.primary_key:
        yield "has no primary key", "Row identity is the primary key: ALTER TABLE … ADD PRIMARY KEY (…, tier key)."
    if heap.primary_key_is_deferrable:
        yield "has a deferrable primary key, on which ON CONFLICT cannot work", "Make the primary key NOT DEFERRABLE."
    if heap.inbound_foreign_keys:
        yield (
            f"is referenced by {heap.inbound_foreign_keys[0]}, and its partitions will be dropped",
            "Drop the foreign key, or keep this table in Postgres alone.",
        )


def _reasons_of_columns(heap: HeapFacts) -> Iterator[tuple[str, str]]:
    for column in heap.columns:
        if column.name in HIDDEN_COLUMNS:
            yield f"has a column {column.name}, a name Thermocline needs itself", "Rename the column."
        if column.is_virtual:
            yield (
                f"has a virtual generated column {column.name}, which triggers cannot read",
                "Make it GENERATED ALWAYS AS (…) STORED, or drop it.",
            )
        if reason := why_not_held(column):
            yield f"cannot be held in the lake: {reason}", "Change the column's type, for example to text or numeric."


def check_owner(conn: Connection, heap: HeapFacts) -> None:
    """Refuse a role that does not own the table, before anything is written."""
    row = conn.execute("select current_user, r.rolsuper from pg_roles r where r.rolname = current_user").fetchone()
    assert row is not None
    me, is_superuser = row
    if not is_superuser and me != heap.owner:
        raise MissingPrivilege(f"Role {me} does not own {heap.name}.", hint=f"Run as {heap.owner} or as a superuser.")


def check_catalog_is_ours(conn: Connection) -> None:
    """Refuse a role that cannot write the catalog somebody else made in this database."""
    row = conn.execute(
        "select current_user, pg_get_userbyid(n.nspowner), pg_has_role(current_user, n.nspowner, 'USAGE')"
        " from pg_namespace n where n.nspname = 'thermocline'"
    ).fetchone()
    if row and not row[2]:
        raise MissingPrivilege(
            f"The catalog in this database belongs to role {row[1]}, and role {row[0]} may not write it.",
            hint=f"Run as {row[1]} or as a superuser.",
        )


def render_steps(plan: RegisterPlan) -> tuple[str, ...]:
    """One line per thing registration makes, and what was noticed on the way."""
    o = plan.objects
    gaps = [(one.hi, other.lo) for one, other in pairwise(plan.partitions) if one.hi < other.lo]
    return (
        f"lake table {o.heap} ({len(plan.columns)} columns, partitioned by {plan.layout})",
        f"delta {o.delta}",
        f"spill {o.spill}, the DEFAULT partition of {o.heap}",
        f"foreign table {o.lake}",
        f"seam {o.seam}",
        f"cut-line at {render_axis(plan.key_type, plan.t)}",
        *(f"note: {render_gap(plan.key_type, lo, hi)}" for lo, hi in gaps),
    )
