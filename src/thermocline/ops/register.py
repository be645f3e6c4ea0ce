"""Registering a table: from an ordinary partitioned table to one that spans.

The Postgres side, the lake's catalog row included, is one transaction: it is all there or not at all. The only thing made before it is one
metadata file in the warehouse under a fresh name, which is deleted when the transaction does not commit.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.catalog import tables
from thermocline.catalog.migrate import apply_migrations
from thermocline.cold.create import CreatedLake, create_lake_table, remove_lake_files
from thermocline.core.axis import KeyType, parse_duration, render_axis
from thermocline.core.coltypes import LakeColumn, plan_lake_columns, why_not_held
from thermocline.core.layout import parse_layout, plan_layout
from thermocline.core.names import TableName, joined_name, suffixed
from thermocline.core.refusals import key_type_of, why_not_partitioned
from thermocline.errors import AlreadyRegistered, CannotRegister, LockNotGranted, MissingPrivilege
from thermocline.hot.facts import HeapFacts, HeapPartition, read_heap, read_partitions
from thermocline.hot.gateway_server import apply_gateway_server
from thermocline.hot.seam import HIDDEN_COLUMNS, SeamDefinition, SeamObjects, apply_grants, apply_seam_objects
from thermocline.pg import Connection, check_version, connect
from thermocline.settings import Settings, split_address

Talk = Callable[[str], None]


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
    """Everything registration will write, decided before anything is written."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterReport:
    """What registration did."""

    table: str
    seam: str
    lake: str
    lake_partition: str
    primary_key: tuple[str, ...]
    tier_key: str
    cut_line: str
    partitions: int
    already: bool
    steps: tuple[str, ...]


def register(dsn: str, request: RegisterRequest, *, settings: Settings, talk: Talk = lambda _: None) -> RegisterReport:
    """Register a table in mode tiered. Repeating it with the same arguments changes nothing."""
    with connect(dsn, autocommit=True, application_name="thermocline register") as conn:
        check_version(conn)
        apply_migrations(conn)
        existing = tables.read_table(conn, request.table)
        heap = read_heap(conn, request.table)
        if existing:
            return _already(existing, heap, request)
        plan = plan_registration(conn, heap, request, settings)
        check_privileges(conn, plan)
        if request.dry_run:
            return _report(plan, already=False, steps=render_steps(plan))
        for step in render_steps(plan):
            talk(step)
        _apply(conn, plan, settings)
        return _report(plan, already=False, steps=render_steps(plan))


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
    tiering_lag = parse_duration(key_type, request.tiering_lag or settings.tiering_lag)
    reclaim = request.reclaim_lag or settings.reclaim_lag
    bounds = [(p.lo, p.hi) for p in partitions]
    objects = _objects(heap, request.seam_schema or f"{heap.name.schema}_all")
    for taken in (objects.seam, objects.delta, objects.lake, objects.spill):
        if conn.execute("select to_regclass(%s)", [str(taken)]).fetchone() != (None,):
            raise CannotRegister(f"A relation {taken} exists already.", hint="Rename or drop it, or give another --seam-schema.")
    if tables.read_lake_metadata_location(conn, heap.name.schema, heap.name.table):
        raise CannotRegister(
            f"The lake has a table {heap.name} already, from an earlier registration.",
            hint="It may hold the only copy of that history; take it up or drop it before registering anew.",
        )
    return RegisterPlan(
        heap=heap,
        partitions=partitions,
        key=key.name,
        key_type=key_type,
        columns=plan_lake_columns(heap.columns, tuple(c.name for c in heap.primary_key)),
        tiering_lag=tiering_lag,
        reclaim_lag=parse_duration(key_type, reclaim) if reclaim else tiering_lag,
        layout=parse_layout(key_type, request.lake_partition) if request.lake_partition else plan_layout(key_type, bounds),
        objects=objects,
        t=partitions[0].lo,
    )


def check_heap(heap: HeapFacts) -> None:
    """Refuse a table that cannot span, with the reason and what to do."""
    refuse = CannotRegister
    if heap.is_system:
        raise refuse(f"{heap.name} is a system table.", hint="Register a table of your own.")
    if heap.is_partition:
        raise refuse(f"{heap.name} is itself a partition.", hint="Register the table it belongs to.")
    if heap.persistence != "p":
        kind = "unlogged" if heap.persistence == "u" else "temporary"
        raise refuse(
            f"{heap.name} is {kind}.", hint="Only permanent tables can span; ALTER TABLE … SET LOGGED makes an unlogged one permanent."
        )
    expression = 0 in heap.partition_attnums
    if reason := why_not_partitioned(heap.strategy, heap.partition_key_text, len(heap.partition_attnums), expression):
        raise refuse(
            f"{heap.name} cannot be tiered: {reason}.", hint="Tiering moves whole partitions: PARTITION BY RANGE on one plain column."
        )
    if heap.has_row_security:
        raise refuse(
            f"{heap.name} has row-level security, which the lake cannot apply.", hint="Disable it, or keep this table in Postgres alone."
        )
    if heap.default_partition:
        raise refuse(
            f"{heap.name} has a DEFAULT partition of its own, {heap.default_partition}.",
            hint="Move its rows into range partitions and drop it; Thermocline needs that place for its spill.",
        )
    if not heap.primary_key:
        raise refuse(
            f"{heap.name} has no primary key.", hint="Row identity is the primary key: ALTER TABLE … ADD PRIMARY KEY (…, tier key)."
        )
    if heap.inbound_foreign_keys:
        raise refuse(
            f"{heap.name} is referenced by {heap.inbound_foreign_keys[0]}, and its partitions will be dropped.",
            hint="Drop the foreign key, or keep this table in Postgres alone.",
        )
    for column in heap.columns:
        if column.name in HIDDEN_COLUMNS:
            raise refuse(f"{heap.name} has a column {column.name}, a name Thermocline needs itself.", hint="Rename the column.")
        if reason := why_not_held(column):
            raise refuse(
                f"{heap.name} cannot be held in the lake: {reason}.", hint="Change the column's type, for example to text or numeric."
            )


def check_privileges(conn: Connection, plan: RegisterPlan) -> None:
    """Refuse before writing when this role cannot do all of it."""
    owner = plan.heap.owner
    row = conn.execute(
        "select current_user, r.rolsuper, has_database_privilege(current_database(), 'CREATE'),"
        " exists (select 1 from pg_available_extensions where name = 'postgres_fdw')"
        " from pg_roles r where r.rolname = current_user"
    ).fetchone()
    assert row is not None
    me, is_superuser, may_create, has_fdw = row
    if not has_fdw:
        raise MissingPrivilege("This Postgres has no postgres_fdw.", hint="Install the contrib package of this Postgres.")
    if not is_superuser and me != owner:
        raise MissingPrivilege(f"Role {me} does not own {plan.heap.name}.", hint=f"Run as {owner} or as a superuser.")
    if not may_create:
        raise MissingPrivilege(f"Role {me} may not create schemas in this database.", hint=f"GRANT CREATE ON DATABASE … TO {me}.")


def render_steps(plan: RegisterPlan) -> tuple[str, ...]:
    """One line per thing registration makes."""
    o = plan.objects
    return (
        f"lake table {o.heap} ({len(plan.columns)} columns, partitioned by {plan.layout})",
        f"delta {o.delta}",
        f"spill {o.spill}, the DEFAULT partition of {o.heap}",
        f"foreign table {o.lake}",
        f"seam {o.seam}",
        f"cut-line at {render_axis(plan.key_type, plan.t)}",
    )


def _apply(conn: Connection, plan: RegisterPlan, settings: Settings) -> None:
    lake = create_lake_table(settings.warehouse_location, plan.heap.name, plan.columns, plan.key, plan.layout, table_uuid=uuid.uuid4())
    try:
        with conn.transaction():
            conn.execute("select set_config('lock_timeout', %s, true)", [f"{settings.lock_timeout_ms}ms"])
            _apply_in_transaction(conn, plan, lake, settings)
    except psycopg.errors.LockNotAvailable as problem:
        remove_lake_files(lake.location)
        raise LockNotGranted(
            f"The lock on {plan.heap.name} was not granted within {settings.lock_timeout_ms} ms; nothing was changed.",
            hint="A long transaction uses the table; try again when it has ended.",
        ) from problem
    except psycopg.OperationalError:
        raise  # the commit's outcome is not known, so the lake's file must stay
    except BaseException:
        remove_lake_files(lake.location)
        raise


def _apply_in_transaction(conn: Connection, plan: RegisterPlan, lake: CreatedLake, settings: Settings) -> None:
    heap, objects = plan.heap, plan.objects
    owner = sql.Identifier(heap.owner)
    host, port = split_address(settings.gateway_listen)
    new = tables.NewTable(
        name=heap.name,
        heap_oid=heap.oid,
        mode="tiered",
        pk=tuple(c.name for c in heap.primary_key),
        tier_key=plan.key,
        key_type=plan.key_type,
        tiering_lag=plan.tiering_lag,
        reclaim_lag=plan.reclaim_lag,
        lake_partition=plan.layout,
        lake_namespace=heap.name.schema,
        lake_name=heap.name.table,
        lake_uuid=lake.uuid,
        lake_location=lake.location,
        seam_schema=objects.seam.schema,
        object_name=objects.functions,
        spill=objects.spill,
    )
    table_id = tables.insert_table(conn, new, plan.columns, tuple(c.attnum for c in heap.columns), plan.t)
    tables.insert_lake_table(conn, new.lake_namespace, new.lake_name, lake.metadata_location)
    conn.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(objects.seam.schema)))
    conn.execute(sql.SQL("grant usage on schema {} to public").format(sql.Identifier(objects.seam.schema)))
    conn.execute(sql.SQL("grant usage on schema thermocline, thermocline_delta, thermocline_lake, thermocline_fn to {}").format(owner))
    conn.execute(sql.SQL("grant select on thermocline.cutline to {}").format(owner))
    conn.execute(sql.SQL("grant usage on sequence thermocline.delta_version to {}").format(owner))
    apply_gateway_server(conn, heap.owner, host=host, port=port, password=secrets.token_urlsafe(24))
    seam = SeamDefinition(
        objects=objects,
        heap=heap,
        table_id=table_id,
        tier_key=plan.key,
        key_type=plan.key_type,
        lake_columns=plan.columns,
        lake_schema=new.lake_namespace,
        lake_table=new.lake_name,
    )
    apply_seam_objects(conn, seam, plan.t)
    apply_grants(conn, objects, heap.grants)
    _apply_constraint_exclusion(conn)
    tables.insert_event(conn, table_id, "register", f"{heap.name} is registered in mode tiered; its seam is {objects.seam}.")


def _apply_constraint_exclusion(conn: Connection) -> None:
    """With it the planner leaves the lake out of queries that are provably recent; `doctor` says so where we may not set it."""
    row = conn.execute(
        "select d.datname, pg_has_role(current_user, d.datdba, 'MEMBER') from pg_database d where d.datname = current_database()"
    ).fetchone()
    if row and row[1]:
        conn.execute(sql.SQL("alter database {} set constraint_exclusion = on").format(sql.Identifier(row[0])))


def _objects(heap: HeapFacts, seam_schema: str) -> SeamObjects:
    joined = joined_name(heap.name)
    return SeamObjects(
        heap=heap.name,
        seam=TableName(seam_schema, heap.name.table),
        delta=TableName("thermocline_delta", joined),
        lake=TableName("thermocline_lake", joined),
        spill=TableName("thermocline_delta", suffixed(joined, "spill")),
        functions=joined,
    )


def _already(existing: tables.RegisteredTable, heap: HeapFacts, request: RegisterRequest) -> RegisterReport:
    wished = (
        ("--tiering-lag", request.tiering_lag and parse_duration(existing.key_type, request.tiering_lag), existing.tiering_lag),
        ("--reclaim-lag", request.reclaim_lag and parse_duration(existing.key_type, request.reclaim_lag), existing.reclaim_lag),
        ("--lake-partition", request.lake_partition and parse_layout(existing.key_type, request.lake_partition), existing.lake_partition),
        ("--seam-schema", request.seam_schema, existing.seam_schema),
    )
    for option, asked, held in wished:
        if asked is not None and asked != held:
            raise AlreadyRegistered(f"{existing.name} is registered already, with another {option} ({held}).")
    if heap.oid != existing.heap_oid:
        raise AlreadyRegistered(
            f"{existing.name} was registered, then dropped and made anew.", hint="Unregister it, then register it again."
        )
    return RegisterReport(
        table=str(existing.name),
        seam=str(TableName(existing.seam_schema, existing.name.table)),
        lake=existing.lake_location,
        lake_partition=existing.lake_partition,
        primary_key=existing.pk,
        tier_key=existing.tier_key,
        cut_line="",
        partitions=0,
        already=True,
        steps=(),
    )


def _report(plan: RegisterPlan, *, already: bool, steps: tuple[str, ...]) -> RegisterReport:
    return RegisterReport(
        table=str(plan.heap.name),
        seam=str(plan.objects.seam),
        lake=str(plan.heap.name),
        lake_partition=plan.layout,
        primary_key=tuple(c.name for c in plan.heap.primary_key),
        tier_key=plan.key,
        cut_line=render_axis(plan.key_type, plan.t),
        partitions=len(plan.partitions),
        already=already,
        steps=steps,
    )
