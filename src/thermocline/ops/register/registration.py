"""Registering a table: from an ordinary partitioned table to one that spans.

The Postgres side, the lake's catalog row included, is one transaction: it is all there or not at all. The only thing
made before it is one metadata file in the warehouse under a fresh name, which is deleted when the transaction does not
commit.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from thermocline.catalog import journal, tables
from thermocline.catalog import unregistered_lakes as kept_lakes
from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.maintenance.policies import apply_policy, read_policy
from thermocline.catalog.migrate import apply_migrations, check_catalog_is_ours
from thermocline.catalog.profiles import settle_default_warehouse
from thermocline.catalog.safety import Owner
from thermocline.core.axis import parse_duration, render_axis
from thermocline.core.modes.table_settings import choose_settings, list_changes
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine, PartitionObservation
from thermocline.core.partition_layout import parse_layout
from thermocline.core.plan.preview import TierPreview
from thermocline.core.policy.policy_layers import PolicyChanges, change_policy, parse_preset
from thermocline.errors import (
    AlreadyRegistered,
    ChangedDuringRegistration,
    LockNotGranted,
    MissingPrivilege,
    RegistrationUnknown,
    ThermoclineError,
)
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import CreatedLake, create_lake_table, plan_location
from thermocline.ops.admin.init_database import check_privileges
from thermocline.ops.admin.places import check_places, warehouse_of
from thermocline.ops.register.adoption import Adoption
from thermocline.ops.register.lake_folders import remove_lake_files
from thermocline.ops.register.registration_plan import (
    RegisterPlan,
    RegisterRequest,
    check_columns,
    check_options,
    check_owner,
    plan_registration,
    render_notes,
    render_steps,
)
from thermocline.ops.spanning_table import read_spanning
from thermocline.ops.tier.confirmed_expiry import Expiry
from thermocline.ops.tier.read_preview import preview_heap, preview_registered
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.locations import location_of
from thermocline.runtime.pg import Connection, check_version, connect, rows_by_name
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.seam.foreign_server import apply_gateway_server
from thermocline.seam.grants import note_followed_grants
from thermocline.seam.heap.facts import HeapFacts, read_heap, read_partitions
from thermocline.seam.heap.partitions import apply_discovery, capture_late_partition
from thermocline.seam.objects import SeamDefinition, apply_grants, apply_seam_objects
from thermocline.seam.retention import raise_retention_line
from thermocline.seam.schema_changes import note_seam
from thermocline.seam.truncation import apply_truncate_triggers

__all__ = ["SEAM_SCHEMA_COMMENT", "RegisterReport", "RegisterRequest", "register"]


SEAM_SCHEMA_COMMENT = "Seams of tables that span, made by Thermocline."


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
    is_started: bool
    preview: TierPreview
    """What the next cycle moves, by itself or by hand."""
    notes: tuple[str, ...] = ()
    expiry: Expiry | None = None
    """What the lake retention deletes, of a table that was started with the lake it adopted."""


def register(
    dsn: str, request: RegisterRequest, *, settings: Settings, report_progress: ProgressReporter = no_progress
) -> RegisterReport:
    """Register a table. Repeating it with the same arguments changes nothing."""
    with (
        connect(dsn, autocommit=True, application_name="thermocline register") as conn,
        _refusals_named(request, settings),
    ):
        check_version(conn)
        conn.execute("select set_config('lock_timeout', %s, false)", [f"{settings.lock_timeout_ms}ms"])
        check_privileges(conn)
        check_catalog_is_ours(conn)
        # A refusal, and a dry run, leave not even a catalog behind.
        with conn.transaction(force_rollback=request.dry_run):
            apply_migrations(conn)
            check_places(conn, settings)
            existing = tables.read_table(conn, request.table)
            heap = read_heap(conn, request.table, existing.pk if existing and request.pk is None else request.pk)
            if existing:
                return _already(conn, existing, heap, request)
            check_lakes_match_journal(conn)
            check_may_change_lakes(conn)
            plan = plan_registration(conn, heap, request, settings)
            check_owner(conn, heap)
            preview = _preview(conn, plan)
        if not request.dry_run:
            for step in render_steps(plan):
                report_progress(step)
            _apply(conn, plan, request, settings)
        return _report(plan, preview)


@contextmanager
def _refusals_named(request: RegisterRequest, settings: Settings) -> Iterator[None]:
    """What Postgres refuses, in our words; looking at a table waits for locks too, so this is around all of it."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as problem:
        raise LockNotGranted(
            f"The lock on {request.table} was not granted within {settings.lock_timeout_ms} ms; nothing was changed.",
            hint="A long transaction uses the table; try again when it has ended.",
        ) from problem
    except psycopg.errors.InsufficientPrivilege as problem:
        raise MissingPrivilege(
            f"Postgres refused: {problem.diag.message_primary}.",
            hint="Grant it to the role, or run as the table's owner or a superuser.",
        ) from problem


def _apply(conn: Connection, plan: RegisterPlan, request: RegisterRequest, settings: Settings) -> None:
    if plan.adoption is not None:
        with conn.transaction():
            _lock_unchanged(conn, plan, request, settings)
            _apply_in_transaction(conn, plan, plan.adoption.lake, settings)
            fault_point("register-applied")
        fault_point("register-committed")
        return
    name, lake_uuid = plan.heap.name, uuid.uuid4()
    warehouse = plan.profile.warehouse if plan.profile else warehouse_of(conn, settings)
    location = plan_location(warehouse, name, lake_uuid)
    # From here on the janitor knows the directory, whatever becomes of us.
    kept_lakes.leave_location(conn, location)
    fault_point("register-begun")
    try:
        lake = create_lake_table(
            warehouse,
            name,
            plan.columns,
            plan.key,
            plan.layout,
            table_uuid=lake_uuid,
            is_shared=settings.shared_files,
        )
        fault_point("register-file-written")
        with conn.transaction():
            _lock_unchanged(conn, plan, request, settings)
            if not kept_lakes.take_location(conn, location):
                raise ChangedDuringRegistration(
                    f"Registering {name} took longer than the grace period for files; nothing was changed."
                )
            if plan.profile is None:
                _settle_warehouse(conn, name, warehouse)
            _apply_in_transaction(conn, plan, lake, settings)
            fault_point("register-applied")
    except BaseException:
        _remove_unless_registered(conn, name, lake_uuid, location)
        raise
    fault_point("register-committed")


def _settle_warehouse(conn: Connection, name: TableName, warehouse: str) -> None:
    """The first table decides where the lakes of the others are made; it waits for another first one."""
    if settle_default_warehouse(conn, warehouse) != location_of(warehouse):
        raise ChangedDuringRegistration(
            f"The database got another warehouse while {name} was being registered; nothing was changed."
        )


def _remove_unless_registered(conn: Connection, name: TableName, lake_uuid: uuid.UUID, location: str) -> None:
    """Remove the lake's file, unless the commit arrived after all or its outcome is unknown."""
    if conn.closed:
        raise RegistrationUnknown(
            f"The connection was lost while {name} was registered; whether it arrived is not known."
        )
    if (found := tables.read_table(conn, name)) is None or found.lake_uuid != lake_uuid:
        with suppress(ThermoclineError, OSError):  # it is listed as left over, and the janitor tries again
            remove_lake_files(conn, location)
            kept_lakes.take_location(conn, location)


def _lock_unchanged(conn: Connection, plan: RegisterPlan, request: RegisterRequest, settings: Settings) -> None:
    """From here on nobody changes the table's shape or partitions, and it is still the one that was planned for."""
    name = plan.heap.name
    conn.execute(
        sql.SQL("lock table only {} in share update exclusive mode").format(sql.Identifier(name.schema, name.table))
    )
    if tables.read_table(conn, name) or read_heap(conn, name, request.pk) != plan.heap:
        raise ChangedDuringRegistration(f"{name} changed while it was being registered; nothing was changed.")
    if plan_registration(conn, plan.heap, request, settings) != plan:
        raise ChangedDuringRegistration(
            f"The partitions of {name} changed while it was being registered; nothing was changed."
        )


def _apply_in_transaction(conn: Connection, plan: RegisterPlan, lake: CreatedLake, settings: Settings) -> None:
    heap, objects = plan.heap, plan.objects
    host, port = settings.gateway_hosts_and_ports
    new = tables.NewTable(
        name=heap.name,
        heap_oid=heap.oid,
        mode=plan.mode,
        pk=tuple(c.name for c in heap.primary_key),
        tier_key=plan.key,
        key_type=plan.key_type,
        tiering_lag=plan.settings.tiering_lag,
        reclaim_lag=plan.settings.reclaim_lag,
        lake_partition=plan.layout,
        lake_namespace=heap.name.schema,
        lake_name=heap.name.table,
        lake_uuid=lake.uuid,
        lake_location=lake.location,
        seam_schema=objects.seam.schema,
        object_name=objects.functions,
        spill=objects.spill,
        lake_retention=plan.settings.lake_retention,
        partition_width=plan.partition_width,
        premake=plan.settings.premake,
        profile=plan.profile.name if plan.profile else None,
        lake_until=plan.adoption.until if plan.adoption else None,
        is_started=plan.is_started,
    )
    table_id = tables.insert_table(conn, new, plan.columns, tuple(c.attnum for c in heap.columns), plan.t)
    if plan.adoption is not None and plan.adoption.settings is not None:
        kept_lakes.adopt_policy(conn, table_id, plan.adoption.settings)
    if plan.preset is not None:
        chosen = PolicyChanges(values={}, preset=plan.preset)
        apply_policy(conn, Owner(table_id=table_id), lambda stored: change_policy(stored, chosen))
    if plan.adoption is None:
        lake_catalog().insert_table(conn, new.lake, lake.metadata_location)
    apply_schemas(conn, objects.seam.schema, heap.owner)
    apply_gateway_server(conn, heap.owner, host=host, port=port, password=secrets.token_urlsafe(24))
    seam = define_seam(plan, table_id)
    apply_retention_row(conn, table_id, heap.owner)
    apply_seam_objects(conn, seam, plan.t)
    apply_truncate_triggers(conn, seam)
    if plan.adoption is not None:
        _adopt(conn, plan, plan.adoption, seam, settings)
    apply_grants(conn, objects, heap.grants)
    note_followed_grants(conn, table_id)
    note_seam(conn, table_id)
    _apply_constraint_exclusion(conn)
    moves = "partitions move by themselves" if new.is_started else "nothing moves by itself before it is started"
    sentence = f"{heap.name} is registered in mode {new.mode}; its seam is {objects.seam}; {moves}."
    tables.insert_event(conn, table_id, "register", sentence)


def define_seam(plan: RegisterPlan, table_id: int) -> SeamDefinition:
    return SeamDefinition(
        objects=plan.objects,
        heap=plan.heap,
        table_id=table_id,
        tier_key=plan.key,
        key_type=plan.key_type,
        lake_columns=plan.columns,
        mode=plan.mode,
    )


def _preview(conn: Connection, plan: RegisterPlan) -> TierPreview:
    """What the first cycle would move; the table has no id yet, and none of its partitions a state."""
    adoption = plan.adoption
    cut = CutLine(t=plan.t, s=adoption.snapshot if adoption else None, seam_line=plan.t, fence=0)
    until = adoption.until if adoption else None
    return preview_heap(conn, define_seam(plan, 0), plan.partitions, cut, plan.settings, until)


def _adopt(conn: Connection, plan: RegisterPlan, adoption: Adoption, seam: SeamDefinition, settings: Settings) -> None:
    """Publish what the lake holds, and carry what the heap has below the line into the delta."""
    held = adoption.r if plan.settings.lake_retention is not None else None
    kept_lakes.adopt_kept(conn, seam.table_id, snapshot=adoption.snapshot, r=held, past=adoption.past)
    kept_lakes.forget_kept(conn, adoption.lake.uuid)
    if held is not None:
        raise_retention_line(conn, seam.table_id, held, settings.lock_timeout_ms)
    states = apply_discovery(conn, seam.table_id, plan.partitions)
    for late in adoption.late:
        partition = PartitionObservation(
            oid=late.oid, name=late.name, lo=late.lo, hi=late.hi, state=states[late.oid], size_bytes=0
        )
        capture_late_partition(conn, seam.table_id, partition, settings.lock_timeout_ms)


def apply_retention_row(conn: Connection, table_id: int, owner: str) -> None:
    """The line's row. Writers of old rows lock it with the owner's rights, which takes the right to update a column
    that says nothing."""
    conn.execute("insert into thermocline.retention (table_id) values (%s)", [table_id])
    apply_retention_right(conn, owner)


def apply_retention_right(conn: Connection, owner: str) -> None:
    conn.execute(sql.SQL("grant select, update (shared) on thermocline.retention to {}").format(sql.Identifier(owner)))


def apply_schemas(conn: Connection, seam_schema: str, owner: str) -> None:
    """The seam's schema, open to all when it is ours to open, and what the owner needs of the catalog: its seam runs
    with its rights."""
    role, schema = sql.Identifier(owner), sql.Identifier(seam_schema)
    if conn.execute("select from pg_namespace where nspname = %s", [seam_schema]).fetchone() is None:
        conn.execute(sql.SQL("create schema {}").format(schema))
        conn.execute(sql.SQL("comment on schema {} is {}").format(schema, sql.Literal(SEAM_SCHEMA_COMMENT)))
        conn.execute(sql.SQL("grant usage on schema {} to public").format(schema))
    conn.execute(sql.SQL("grant usage on schema {} to {}").format(schema, role))
    conn.execute(
        sql.SQL("grant usage on schema thermocline, thermocline_delta, thermocline_lake, thermocline_fn to {}").format(
            role
        )
    )
    conn.execute(sql.SQL("grant select on thermocline.cutline to {}").format(role))
    conn.execute(sql.SQL("grant usage on sequence thermocline.delta_version to {}").format(role))


def _apply_constraint_exclusion(conn: Connection) -> None:
    """With it the planner leaves the lake out of queries that are provably recent; `doctor` says so where we may not
    set it."""
    database = (
        rows_by_name(conn)
        .execute(
            "select d.datname, pg_has_role(current_user, d.datdba, 'MEMBER') as may_alter from pg_database d"
            " where d.datname = current_database()"
        )
        .fetchone()
    )
    if database and database.may_alter:
        conn.execute(
            sql.SQL("alter database {} set constraint_exclusion = on").format(sql.Identifier(database.datname))
        )


def _already(
    conn: Connection, existing: tables.RegisteredTable, heap: HeapFacts, request: RegisterRequest
) -> RegisterReport:
    if heap.oid != existing.heap_oid:
        raise AlreadyRegistered(
            f"{existing.name} was registered, then dropped and made anew.",
            hint="Unregister it, then register it again.",
        )
    kind = existing.key_type
    check_options(request)
    check_columns(heap, request)
    chosen = choose_settings(kind, existing.mode, request.requested, existing.settings)
    for change in list_changes(kind, existing.settings, chosen):
        option = f"--{change.setting.replace('_', '-')}"
        raise AlreadyRegistered(
            f"{existing.name} is registered already, with another {option} ({change.before}).",
            hint=f"`thermocline alter {existing.name} {option} …` changes it.",
        )
    options: tuple[tuple[str, Any, Callable[[Any], object], object], ...] = (
        ("--lake-partition", request.lake_partition, lambda text: parse_layout(kind, text), existing.lake_partition),
        ("--seam-schema", request.seam_schema, str, existing.seam_schema),
        (
            "--partition-width",
            request.partition_width,
            lambda text: parse_duration(kind, text, is_step=True),
            existing.partition_width,
        ),
        ("--profile", request.profile, str, existing.profile),
        ("--preset", request.preset, parse_preset, read_policy(conn, Owner(table_id=existing.id)).preset),
        ("--keep-heap", request.keep_heap or None, bool, existing.mode.with_keep_heap),
    )
    for option, requested, parse, stored in options:
        if requested is not None and parse(requested) != stored:
            raise AlreadyRegistered(f"{existing.name} is registered already, with another {option} ({stored}).")
    return RegisterReport(
        table=str(existing.name),
        seam=str(TableName(existing.seam_schema, existing.name.table)),
        lake=existing.lake_identifier,
        lake_partition=existing.lake_partition,
        primary_key=existing.pk,
        tier_key=existing.tier_key,
        cut_line=render_axis(kind, journal.read_cutline(conn, existing.id).t),
        partitions=len(read_partitions(conn, heap, kind)),
        already=True,
        steps=(),
        is_started=existing.is_started,
        preview=preview_registered(conn, read_spanning(conn, existing.name)),
    )


def _report(plan: RegisterPlan, preview: TierPreview) -> RegisterReport:
    return RegisterReport(
        table=str(plan.heap.name),
        seam=str(plan.objects.seam),
        lake=f"{plan.heap.name.schema}.{plan.heap.name.table}",
        lake_partition=plan.layout,
        primary_key=tuple(c.name for c in plan.heap.primary_key),
        tier_key=plan.key,
        cut_line=render_axis(plan.key_type, plan.t),
        partitions=len(plan.partitions),
        already=False,
        steps=render_steps(plan),
        notes=render_notes(plan),
        is_started=plan.is_started,
        preview=preview,
    )
