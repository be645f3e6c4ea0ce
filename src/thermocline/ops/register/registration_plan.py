"""What registering a table will write, decided before anything is written; or the one reason why it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from thermocline.catalog.profiles import StorageProfile, find_profile
from thermocline.catalog.unregistered_lakes import KeptSettings, find_kept
from thermocline.core.axis import KeyType, parse_duration, render_axis
from thermocline.core.columns import HeapColumn, LakeColumn, plan_lake_columns, why_not_held
from thermocline.core.modes.mode import Mode, mode_named
from thermocline.core.modes.registration_options import DEFAULT_OPTION, choose_mode
from thermocline.core.modes.table_settings import (
    RequestedSettings,
    TableSettings,
    check_retention_has_width,
    choose_settings,
    given_retention,
    parse_positive,
)
from thermocline.core.names import MAX_IDENTIFIER_BYTES, TableName, joined_name, suffixed
from thermocline.core.partition_layout import parse_layout, plan_layout
from thermocline.core.plan.tier import render_gap
from thermocline.core.policy.keys import Preset
from thermocline.core.policy.policy_layers import parse_preset
from thermocline.core.tier_key import key_type_of, why_not_partitioned
from thermocline.errors import (
    CannotRegister,
    LakeNotAdoptable,
    MissingPrivilege,
    NoSuchColumn,
    UsageError,
    WrongCombination,
)
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.ops.register.adoption import Adoption, find_rows_the_heap_lacks, plan_adoption
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.facts import HeapFacts, HeapPartition, read_partitions
from thermocline.seam.objects import HIDDEN_COLUMNS, SeamObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """The options of the command; `None` is the default."""

    table: TableName
    mode: str | None = None
    keep_heap: bool = False
    pk: tuple[str, ...] | None = None
    tier_key: str | None = None
    tiering_lag: str | None = None
    reclaim_lag: str | None = None
    lake_retention: str | None = None
    heap_retention: str | None = None
    lake_partition: str | None = None
    partition_width: str | None = None
    premake: int | None = None
    profile: str | None = None
    preset: str | None = None
    seam_schema: str | None = None
    adopt_lake: bool = False
    incarnation: str | None = None
    start: bool = False
    dry_run: bool = False

    @property
    def requested(self) -> RequestedSettings:
        return RequestedSettings(
            tiering_lag=self.tiering_lag,
            reclaim_lag=self.reclaim_lag,
            lake_retention=self.lake_retention,
            premake=self.premake,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterPlan:
    """Everything registration will write."""

    heap: HeapFacts
    partitions: tuple[HeapPartition, ...]
    key: str
    key_type: KeyType
    columns: tuple[LakeColumn, ...]
    settings: TableSettings
    partition_width: int | None
    mode: Mode
    layout: str
    profile: StorageProfile | None
    preset: Preset | None
    objects: SeamObjects
    t: int
    is_started: bool = False
    adoption: Adoption | None = None


def plan_registration(conn: Connection, heap: HeapFacts, request: RegisterRequest, settings: Settings) -> RegisterPlan:
    """Check everything that can be checked without writing; refuse with the first reason."""
    kept = read_kept_settings(conn, request)
    mode = check_options(request, kept)
    check_columns(heap, request)
    check_heap(heap, mode)
    key, key_type = _tier_key(heap)
    partitions = read_partitions(conn, heap, key_type)
    if not partitions:
        raise CannotRegister(
            f"{heap.name} has no partitions yet.", hint="Create its first partition, then register it."
        )
    if unlogged := next((partition for partition in partitions if not partition.is_permanent), None):
        raise CannotRegister(
            (
                f"Partition {unlogged.name} of {heap.name} is unlogged: a crash empties it, and nothing tells its "
                "lost rows from deleted ones."
            ),
            hint="Only permanent partitions can span: ALTER TABLE … SET LOGGED makes it permanent.",
        )
    bounds = [(p.lo, p.hi) for p in partitions]
    width = kept.partition_width if kept else None
    if request.partition_width is not None:
        width = parse_positive(key_type, "--partition-width", request.partition_width)
    held = _held_settings(key_type, mode, request, settings, kept)
    chosen = choose_settings(key_type, mode, request.requested, held)
    check_retention_has_width(str(heap.name), chosen.lake_retention, width, bounds)
    seam_schema = kept.seam_schema if kept and request.seam_schema is None else request.seam_schema
    objects = plan_objects(heap.name, seam_schema)
    check_names_free(conn, heap, objects, adopts=request.adopt_lake)
    adoption = _plan_adoption(conn, heap, key.name, key_type, partitions, request, mode) if request.adopt_lake else None
    return RegisterPlan(
        heap=heap,
        partitions=partitions,
        key=key.name,
        key_type=key_type,
        columns=adoption.columns
        if adoption
        else plan_lake_columns(heap.columns, tuple(c.name for c in heap.primary_key)),
        settings=chosen,
        partition_width=width,
        preset=None if request.preset is None else parse_preset(request.preset),
        mode=mode,
        layout=adoption.layout if adoption else _layout(key_type, bounds, width, request.lake_partition),
        profile=_profile(conn, request, adoption),
        objects=objects,
        t=adoption.t if adoption else partitions[0].lo,
        is_started=request.start,
        adoption=adoption,
    )


def read_kept_settings(conn: Connection, request: RegisterRequest) -> KeptSettings | None:
    """The settings that an adopted lake brings; None where there are none."""
    kept = find_kept(conn, request.table.schema, request.table.table) if request.adopt_lake else None
    return kept.settings if kept else None


def _held_settings(
    key_type: KeyType, mode: Mode, request: RegisterRequest, settings: Settings, kept: KeptSettings | None
) -> TableSettings:
    """What holds where no option was given: the settings that the lake was left with, else the program's."""
    if kept is not None:
        return TableSettings(
            tiering_lag=kept.tiering_lag,
            reclaim_lag=kept.reclaim_lag,
            lake_retention=kept.lake_retention if mode.allows_lake_retention else None,
            premake=kept.premake,
        )
    return TableSettings(
        tiering_lag=parse_duration(key_type, _first(request.tiering_lag, settings.tiering_lag)),
        reclaim_lag=parse_duration(key_type, _first(request.reclaim_lag, settings.reclaim_lag)),
        lake_retention=None,
        premake=settings.premake_partitions,
    )


def _first(given: str | None, default: str) -> str:
    return default if given is None else given


def _tier_key(heap: HeapFacts) -> tuple[HeapColumn, KeyType]:
    key = heap.partition_column
    assert key is not None
    if (key_type := key_type_of(key.base_type)) is None:
        raise CannotRegister(
            f"{heap.name} is partitioned by {key.name}, whose type {key.pg_type} cannot be a tier key.",
            hint=f"A tier key is of type {', '.join(kind.value for kind in KeyType)}.",
        )
    return key, key_type


def _profile(conn: Connection, request: RegisterRequest, adoption: Adoption | None) -> StorageProfile | None:
    if adoption is None:
        return find_profile(conn, request.profile)
    return find_profile(conn, adoption.profile) if adoption.profile else None


def _plan_adoption(
    conn: Connection,
    heap: HeapFacts,
    key: str,
    key_type: KeyType,
    partitions: tuple[HeapPartition, ...],
    request: RegisterRequest,
    mode: Mode,
) -> Adoption:
    adoption = plan_adoption(conn, heap, key, key_type, partitions, request.incarnation)
    if request.lake_partition is not None and parse_layout(key_type, request.lake_partition) != adoption.layout:
        raise LakeNotAdoptable(
            f"The lake of {heap.name} is partitioned by {adoption.layout}.", hint="Leave --lake-partition out."
        )
    if request.profile is not None and request.profile != adoption.profile:
        raise LakeNotAdoptable(
            f"The lake of {heap.name} lies in {adoption.lake.location}.", hint="Leave --profile out."
        )
    if mode.heap_is_complete and (lacking := find_rows_the_heap_lacks(heap.name, adoption, key)) is not None:
        raise LakeNotAdoptable(
            (
                "With --keep-heap the heap holds every row, and only the lake holds those at "
                f"{render_axis(key_type, lacking)}."
            ),
            hint="Register without --keep-heap, then bring history back by `thermocline unregister --restore-heap`.",
        )
    return adoption


def _layout(key_type: KeyType, bounds: list[tuple[int, int]], width: int | None, requested: str | None) -> str:
    if requested is not None:
        return parse_layout(key_type, requested)
    if width is not None and key_type.is_integer:
        return parse_layout(key_type, f"width:{width}")
    return plan_layout(key_type, bounds if width is None else [(0, width)])


def check_options(request: RegisterRequest, kept: KeptSettings | None = None) -> Mode:
    """The mode that the options choose, or that an adopted lake was left in; refuse options that do not go together,
    before anything is read."""
    option, keep_heap = request.mode, request.keep_heap
    if option is None and not keep_heap and kept is not None:
        earlier = mode_named(kept.mode)
        option, keep_heap = earlier.option, earlier.with_keep_heap
    mode = choose_mode(
        DEFAULT_OPTION if option is None else option,
        keep_heap=keep_heap,
        heap_retention=request.heap_retention,
        lake_retention=given_retention(request.lake_retention),
        reclaim_lag=request.reclaim_lag,
    )
    if request.incarnation is not None and not request.adopt_lake:
        raise WrongCombination("--incarnation belongs to --adopt-lake.")
    if request.preset is not None:
        parse_preset(request.preset)
    return mode


def check_columns(heap: HeapFacts, request: RegisterRequest) -> None:
    """Refuse --pk and --tier-key that the table does not show."""
    for option, names in (("--pk", request.pk or ()), ("--tier-key", (request.tier_key,) if request.tier_key else ())):
        for name in names:
            if heap.column(name) is None:
                raise NoSuchColumn(f"{heap.name} has no column {name}, which {option} names.")
    if request.tier_key is not None and (
        heap.partition_column is None or heap.partition_column.name != request.tier_key
    ):
        found = heap.partition_key_text or "nothing"
        raise UsageError(
            f"{request.tier_key} cannot be the tier key of {heap.name}, which is partitioned by {found}.",
            hint="The tier key is the one column of PARTITION BY RANGE; leave --tier-key out to take it.",
        )
    held = tuple(column.name for column in heap.primary_key)
    if request.pk is not None and set(request.pk) != set(held):  # what was found covers exactly them, or nothing does
        raise CannotRegister(
            f"No primary key or NOT NULL unique constraint of {heap.name} covers exactly ({', '.join(request.pk)}).",
            hint="Row identity needs one; add it, or name the columns of one that is there.",
        )


def plan_objects(heap: TableName, seam_schema: str | None) -> SeamObjects:
    """The names of everything made for a table. No table's spill can have another's delta's name: `__` joins once in
    those."""
    schema = suffixed(heap.schema, "all") if seam_schema is None else seam_schema
    if not 0 < len(schema.encode()) <= MAX_IDENTIFIER_BYTES or "\x00" in schema or schema.startswith("pg_"):
        raise UsageError(
            f"{schema!r} cannot be the name of a schema.",
            hint=f"Give --seam-schema a name of 1 to {MAX_IDENTIFIER_BYTES} bytes without pg_.",
        )
    joined = joined_name(heap)
    return SeamObjects(
        heap=heap,
        seam=TableName(schema, heap.table),
        delta=TableName("thermocline_delta", joined),
        lake=TableName("thermocline_lake", joined),
        spill=TableName("thermocline_delta", suffixed(joined, "_spill")),
        functions=joined,
    )


def check_names_free(conn: Connection, heap: HeapFacts, objects: SeamObjects, *, adopts: bool = False) -> None:
    """Refuse when something has the name of what will be made."""
    for taken in (objects.seam, objects.delta, objects.lake, objects.spill):
        where = [taken.schema, taken.table]
        query = (
            "select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and "
            "c.relname = %s"
        )
        if conn.execute(query, where).fetchone() is not None:
            raise CannotRegister(
                f"A relation {taken} exists already.", hint="Rename or drop it, or give another --seam-schema."
            )
    if not adopts and lake_catalog().read_metadata_location(conn, heap.name):
        raise CannotRegister(
            f"The lake has a table {heap.name} already, from an earlier registration.",
            hint=(
                "It may hold the only copy of that history: --adopt-lake takes it up, `unregister --drop-lake` "
                "drops it."
            ),
        )


def check_heap(heap: HeapFacts, mode: Mode) -> None:
    """Refuse a table that cannot span, with the reason and what to do."""
    for reason, hint in (*_reasons_of_kind(heap), *_reasons_of_shape(heap, mode), *_reasons_of_columns(heap)):
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


def _reasons_of_shape(heap: HeapFacts, mode: Mode) -> Iterator[tuple[str, str]]:
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
    if heap.inbound_foreign_keys and mode.drops_partitions:
        yield (
            f"is referenced by {heap.inbound_foreign_keys[0]}, and its partitions will be dropped",
            "Drop the foreign key, or register with --keep-heap, which drops no partition.",
        )
    if heap.acting_foreign_keys and not mode.heap_is_complete:
        yield (
            (
                f"has the foreign key {heap.acting_foreign_keys[0]} (CASCADE, SET NULL or SET DEFAULT): it would "
                "not reach rows in the lake"
            ),
            (
                "Let the foreign key be ON DELETE/UPDATE NO ACTION or RESTRICT, or register with --keep-heap, "
                "where it reaches every row."
            ),
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


def render_steps(plan: RegisterPlan) -> tuple[str, ...]:
    """One line per thing registration makes."""
    o = plan.objects
    return (
        f"lake table {o.heap} ({len(plan.columns)} columns, partitioned by {plan.layout})"
        + (", adopted" if plan.adoption else ""),
        f"delta {o.delta}",
        f"spill {o.spill}, the DEFAULT partition of {o.heap}",
        f"foreign table {o.lake}",
        f"seam {o.seam}",
        f"cut-line at {render_axis(plan.key_type, plan.t)}",
    )


def render_notes(plan: RegisterPlan) -> tuple[str, ...]:
    """What was noticed on the way: the ranges that no partition covers."""
    gaps = [(one.hi, other.lo) for one, other in pairwise(plan.partitions) if one.hi < other.lo]
    return tuple(render_gap(plan.key_type, lo, hi) for lo, hi in gaps)
