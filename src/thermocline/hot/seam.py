"""The seam: the spanning view, the delta, the spill, the foreign table and the trigger functions of one table.

Every statement comes from `queries/seam.sql`; this module fills in names. Two invariants rest on what is made here:

* a row is visible in exactly one arm of the view under any one snapshot (heap at or above T; lake and delta below it);
* a cold row is never written on top of an image the writer did not see (`changed_meanwhile`, `changed_in_delta`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from thermocline.core.axis import KeyType, render_axis
from thermocline.core.coltypes import LakeColumn
from thermocline.core.names import TableName
from thermocline.hot.facts import Grant, HeapFacts, KeyColumn
from thermocline.pg import Connection, load_queries

CAPTURE_TRIGGER = "thermocline_capture"
FUNCTION_VERSION = "1"
HIDDEN_COLUMNS = ("_snapshot", "_op", "_version", "_folded")
SERVER = "thermocline_gateway"

_QUERIES = load_queries("thermocline.hot", "queries/seam.sql")
_FRAGMENTS = (
    *("raise_conflict", "raise_twice", "write_tombstone", "refuse_existing", "changed_meanwhile", "changed_in_delta"),
    *("narrate_insert", "narrate_update", "narrate_delete"),
)
_FROM_AXIS = {KeyType.DATE: "key_date", KeyType.TIMESTAMP: "key_timestamp", KeyType.TIMESTAMPTZ: "key_timestamptz"}
_LITERAL_TYPES = {KeyType.DATE: "date", KeyType.TIMESTAMP: "timestamp", KeyType.TIMESTAMPTZ: "timestamptz"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeamObjects:
    """The names of what is made for one table."""

    heap: TableName
    seam: TableName
    delta: TableName
    lake: TableName
    spill: TableName
    functions: str

    def function(self, what: str) -> sql.Identifier:
        return sql.Identifier("thermocline_fn", f"{self.functions}_{what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeamDefinition:
    """All that the templates need to know of one table."""

    objects: SeamObjects
    heap: HeapFacts
    table_id: int
    tier_key: str
    key_type: KeyType
    lake_columns: tuple[LakeColumn, ...]
    lake_schema: str
    lake_table: str
    keep_heap: bool = False
    expires: bool = False


def apply_seam_objects(conn: Connection, seam: SeamDefinition, line: int) -> None:
    """Make delta, spill, foreign table, functions, view and triggers; owned by the heap's owner, so that nothing runs with more rights."""
    objects, owner = seam.objects, sql.Identifier(seam.heap.owner)
    parts = _parts(seam, line)
    for name in ("delta", "foreign_table", "spill", "seam"):
        conn.execute(sql.SQL(_QUERIES[name]).format(**parts))
    for relation in (objects.delta, objects.spill):
        conn.execute(sql.SQL("alter table {} owner to {}").format(_ident(relation), owner))
    conn.execute(sql.SQL("alter foreign table {} owner to {}").format(_ident(objects.lake), owner))
    conn.execute(sql.SQL("alter view {} owner to {}").format(_ident(objects.seam), owner))
    _apply_functions(conn, seam, parts)
    apply_capture(conn, objects, objects.spill)
    _apply_view_triggers(conn, objects)
    _apply_view_columns(conn, seam)


def apply_line(conn: Connection, seam: SeamDefinition, line: int) -> None:
    """Rebuild the view with another literal line. Its columns, grants, triggers and defaults stay."""
    conn.execute(sql.SQL(_QUERIES["seam"]).format(**_parts(seam, line)))


def apply_capture(conn: Connection, objects: SeamObjects, relation: TableName) -> None:
    """Attach the capture trigger. Its lock waits out every writer in flight, so each later change is captured."""
    conn.execute(
        sql.SQL("create or replace trigger {} after insert or update or delete on {} for each row execute function {}()").format(
            sql.Identifier(CAPTURE_TRIGGER), _ident(relation), objects.function("capture")
        )
    )


def apply_grants(conn: Connection, objects: SeamObjects, grants: Iterable[Grant]) -> None:
    """The heap's grants on the seam, column grants included."""
    for grant in grants:
        column = sql.SQL(" ({})").format(sql.Identifier(grant.column)) if grant.column else sql.SQL("")
        role = sql.Identifier(grant.grantee) if grant.grantee else sql.SQL("public")
        option = sql.SQL(" with grant option") if grant.grantable else sql.SQL("")
        conn.execute(sql.SQL("grant {}{} on {} to {}{}").format(sql.SQL(grant.privilege), column, _ident(objects.seam), role, option))


def remove_seam_objects(conn: Connection, objects: SeamObjects, captured: Iterable[TableName]) -> None:
    """Undo `apply_seam_objects`; the spill goes with whatever it still holds, so check it first."""
    conn.execute(sql.SQL("drop view if exists {}").format(_ident(objects.seam)))
    for relation in captured:
        conn.execute(sql.SQL("drop trigger if exists {} on {}").format(sql.Identifier(CAPTURE_TRIGGER), _ident(relation)))
    conn.execute(sql.SQL("drop table if exists {}").format(_ident(objects.spill)))
    conn.execute(sql.SQL("drop foreign table if exists {}").format(_ident(objects.lake)))
    conn.execute(sql.SQL("drop table if exists {}").format(_ident(objects.delta)))
    for what in ("capture", "statement_cut", "route_insert", "route_update", "route_delete"):
        conn.execute(sql.SQL("drop function if exists {}()").format(objects.function(what)))


def _apply_functions(conn: Connection, seam: SeamDefinition, parts: dict[str, sql.Composable]) -> None:
    path = sql.SQL(", ").join(sql.Identifier(name) for name in dict.fromkeys(("pg_catalog", seam.heap.name.schema, "public", "pg_temp")))
    for what in ("capture", "statement_cut", "route_insert", "route_update", "route_delete"):
        # A user's column may be called like one of our variables; in a statement the column is meant.
        body = "#variable_conflict use_column\n" + sql.SQL(_QUERIES[what]).format(**parts).as_string(conn)
        function = seam.objects.function(what)
        volatility = sql.SQL("stable" if what == "statement_cut" else "volatile")
        conn.execute(
            sql.SQL("create function {}() returns trigger language plpgsql {} security definer set search_path = {} as {}").format(
                function, volatility, path, sql.Literal(body)
            )
        )
        conn.execute(sql.SQL("alter function {}() owner to {}").format(function, sql.Identifier(seam.heap.owner)))
        conn.execute(sql.SQL("revoke all on function {}() from public").format(function))


def _apply_view_triggers(conn: Connection, objects: SeamObjects) -> None:
    """Triggers fire in the order of their names: the statement's cut-line is noted before the row is routed."""
    for name, event, what in (
        ("thermocline_a_statement_cut", "update or delete", "statement_cut"),
        ("thermocline_b_route_insert", "insert", "route_insert"),
        ("thermocline_b_route_update", "update", "route_update"),
        ("thermocline_b_route_delete", "delete", "route_delete"),
    ):
        conn.execute(
            sql.SQL("create trigger {} instead of {} on {} for each row execute function {}()").format(
                sql.Identifier(name), sql.SQL(event), _ident(objects.seam), objects.function(what)
            )
        )


def _apply_view_columns(conn: Connection, seam: SeamDefinition) -> None:
    view = _ident(seam.objects.seam)
    if seam.heap.comment is not None:
        conn.execute(sql.SQL("comment on view {} is {}").format(view, sql.Literal(seam.heap.comment)))
    for column in seam.heap.columns:
        if column.default is not None:
            # Postgres' own deparsed expression, every name in it qualified.
            expression = sql.SQL(column.default)
            conn.execute(sql.SQL("alter view {} alter column {} set default {}").format(view, sql.Identifier(column.name), expression))
        if column.comment is not None:
            conn.execute(sql.SQL("comment on column {}.{} is {}").format(view, sql.Identifier(column.name), sql.Literal(column.comment)))


def _ident(name: TableName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.table)


def _parts(seam: SeamDefinition, line: int) -> dict[str, sql.Composable]:
    """Every placeholder of the templates."""
    heap, objects, key = seam.heap, seam.objects, seam.heap.primary_key
    names = [column.name for column in heap.columns]
    key_names = [column.name for column in key]
    writable = [column.name for column in heap.columns if not column.generated]
    settable = [column.name for column in heap.columns if not column.generated and column.identity != "a"]
    parts: dict[str, sql.Composable] = {
        "version": sql.SQL(FUNCTION_VERSION),
        "heap": _ident(objects.heap),
        "seam": _ident(objects.seam),
        "delta": _ident(objects.delta),
        "lake": _ident(objects.lake),
        "spill": _ident(objects.spill),
        "heap_text": _in_message(str(objects.heap)),
        "heap_literal": sql.Literal(str(objects.heap)),
        "tier_key_text": _in_message(seam.tier_key),
        "table_id": sql.SQL(str(seam.table_id)),
        "tier_key": sql.Identifier(seam.tier_key),
        "lake_schema": sql.Literal(seam.lake_schema),
        "lake_table": sql.Literal(seam.lake_table),
        "typed_columns": _joined(_typed_column(column.name, column.pg_type, column.collation) for column in heap.columns),
        "foreign_columns": _joined(_foreign_column(seam, column) for column in seam.lake_columns),
        "columns": _listed(names),
        "key_columns": _listed(key_names),
        # The tier key leads, so that one index serves both ranges and single keys.
        "delta_key": _listed(sorted(key_names, key=lambda name: name != seam.tier_key)),
        "heap_columns": _listed(names, "h"),
        "h_columns": _listed(names, "h"),
        "d_columns": _listed(names, "d"),
        "delta_columns": _listed(names, "d"),
        "lake_columns": _joined(_lake_value(seam, column) for column in seam.lake_columns),
        "old_columns": _listed(names, "old"),
        "new_columns": _listed(names, "new"),
        "old_key": _listed(key_names, "old"),
        "new_key": _listed(key_names, "new"),
        "wished_key": _listed(key_names, "wished"),
        "writable": _listed(writable),
        "new_writable": _listed(writable, "new"),
        "wished_writable": _listed(writable, "wished"),
        "set_from_new": _joined(sql.SQL("{} = wished.{}").format(sql.Identifier(n), sql.Identifier(n)) for n in settable),
        "columns_from_excluded": _joined(sql.SQL("{} = excluded.{}").format(sql.Identifier(n), sql.Identifier(n)) for n in names),
        "heap_is_old": key_matches(key, "h", "old"),
        "delta_is_old": key_matches(key, "d", "old"),
        "seam_is_wished": key_matches(key, "s", "wished"),
        "lake_is_corrected": _lake_matches(seam),
        "key_lock": _key_lock(seam),
        "fill_identity": _fill_identity(heap),
        "check_identity": _check_identity(heap),
        "check_generated": _check_generated(heap),
        "refuse_generated": _refuse_generated(heap),
        "cut": _cut(seam),
        "line_of": _cut(seam, "(select r.line from thermocline.retention r where r.table_id = c.table_id)"),
        "line": _line(seam.key_type, line),
    }
    parts["refuse_expired"] = sql.SQL(_QUERIES["refuse_expired"] if seam.expires else "").format(**parts)
    for name in _FRAGMENTS:
        parts[name] = sql.SQL(_QUERIES[name]).format(**parts)
    return parts


def _in_message(text: str) -> sql.SQL:
    """A name within the quotes of a RAISE."""
    return sql.SQL(text.replace("'", "''").replace("%", "%%"))


def _joined(items: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(items)


def _listed(names: Iterable[str], alias: str | None = None) -> sql.Composed:
    return _joined(sql.Identifier(alias, name) if alias else sql.Identifier(name) for name in names)


def _typed_column(name: str, pg_type: str, collation: str | None) -> sql.Composed:
    # format_type() and the collation are Postgres' own spelling, already quoted where they must be.
    spelled = sql.SQL(f"{pg_type} collate {collation}" if collation else pg_type)
    return sql.SQL("{} {}").format(sql.Identifier(name), spelled)


def _is_shippable(seam: SeamDefinition, column: LakeColumn) -> bool:
    """Whether the lake may evaluate conditions on this column: its order and equality are the same in both tiers."""
    heap_column = seam.heap.column(column.name)
    return column.form == "native" and heap_column is not None and (column.lake_type != "string" or heap_column.collation_is_c)


def _foreign_column(seam: SeamDefinition, column: LakeColumn) -> sql.Composed:
    if not _is_shippable(seam, column):
        return _typed_column(column.name, "thermocline.local_text", None)
    heap_column = seam.heap.column(column.name)
    return _typed_column(column.name, column.pg_type, heap_column.collation if heap_column else None)


def _lake_value(seam: SeamDefinition, column: LakeColumn) -> sql.Composed:
    value = sql.Identifier("l", column.name)
    if _is_shippable(seam, column):
        return sql.Composed([value])
    heap_column = seam.heap.column(column.name)
    collation = f" collate {heap_column.collation}" if heap_column and heap_column.collation else ""
    spelled = sql.SQL(column.pg_type + collation)  # Postgres' own spelling
    return sql.SQL("{}::text::{} as {}").format(value, spelled, sql.Identifier(column.name))


def key_matches(key: tuple[KeyColumn, ...], left: str, right: str) -> sql.Composed:
    return sql.SQL(" and ").join(
        sql.SQL("{} operator({}.{}) {}").format(
            sql.Identifier(left, column.name),
            sql.Identifier(column.operator_schema),
            sql.SQL(column.operator),
            sql.Identifier(right, column.name),
        )
        for column in key
    )


def _lake_matches(seam: SeamDefinition) -> sql.Composed:
    by_name = {column.name: column for column in seam.lake_columns}
    tests = []
    for column in seam.heap.primary_key:
        lake = by_name[column.name]
        value: sql.Composable = sql.Identifier("l", column.name)
        if not _is_shippable(seam, lake):
            value = sql.SQL("{}::text::{}").format(value, sql.SQL(lake.pg_type))
        operator = sql.SQL(column.operator)
        tests.append(
            sql.SQL("{} operator({}.{}) {}").format(
                sql.Identifier("d", column.name), sql.Identifier(column.operator_schema), operator, value
            )
        )
    return sql.SQL(" and ").join(tests)


def _key_lock(seam: SeamDefinition) -> sql.Composable:
    """An advisory lock per key, the same in every session whatever its settings; one per table where a key type cannot be hashed."""
    if not all(column.is_hashable for column in seam.heap.primary_key):
        return sql.SQL("746101, {}").format(sql.SQL(str(seam.table_id)))
    key = _listed([column.name for column in seam.heap.primary_key], "old")
    return sql.SQL("pg_catalog.hash_record_extended(row({}), {})").format(key, sql.Literal(seam.table_id))


def _fill_identity(heap: HeapFacts) -> sql.Composed:
    return sql.SQL("\n    ").join(
        sql.SQL("if new.{0} is null then new.{0} := pg_catalog.nextval({1}); end if;").format(
            sql.Identifier(column.name), sql.Literal(column.identity_sequence)
        )
        for column in heap.columns
        if column.identity
    )


def _check_identity(heap: HeapFacts) -> sql.Composed:
    """`generated always` columns keep their value, with Postgres' own refusal."""
    return sql.SQL("\n    ").join(
        sql.SQL(
            "if not pg_catalog.record_image_eq(row(new.{0}), row(old.{0})) then"
            " raise exception 'column % can only be updated to DEFAULT', {1} using errcode = '428C9'; end if;"
        ).format(sql.Identifier(column.name), sql.Literal(column.name))
        for column in heap.columns
        if column.identity == "a"
    )


def _refuse_generated(heap: HeapFacts) -> sql.Composed:
    return sql.SQL("\n    ").join(
        sql.SQL(
            "if new.{0} is not null then"
            " raise exception 'cannot insert a non-DEFAULT value into column %', {1} using errcode = '428C9'; end if;"
        ).format(sql.Identifier(column.name), sql.Literal(column.name))
        for column in heap.columns
        if column.generated
    )


def _check_generated(heap: HeapFacts) -> sql.Composed:
    """DEFAULT arrives as NULL; anything else but the value it has is Postgres' own refusal."""
    return sql.SQL("\n    ").join(
        sql.SQL(
            "if new.{0} is not null and not pg_catalog.record_image_eq(row(new.{0}), row(old.{0})) then"
            " raise exception 'column % can only be updated to DEFAULT', {1} using errcode = '428C9'; end if;"
        ).format(sql.Identifier(column.name), sql.Literal(column.name))
        for column in heap.columns
        if column.generated
    )


def key_expression(key_type: KeyType, axis: sql.Composable) -> sql.Composed:
    """A place on the axis as a value of the key's own type."""
    if key_type.is_integer:
        return sql.SQL("{}::bigint").format(axis)
    return sql.SQL("thermocline.{}({}::bigint)").format(sql.Identifier(_FROM_AXIS[key_type]), axis)


def _cut(seam: SeamDefinition, axis: LiteralString = "c.t") -> sql.Composed:
    expression = key_expression(seam.key_type, sql.SQL(axis))
    return sql.SQL("(select {} from thermocline.cutline c where c.table_id = {})").format(expression, sql.Literal(seam.table_id))


def _line(key_type: KeyType, line: int) -> sql.Composed:
    kind = sql.SQL(_LITERAL_TYPES.get(key_type, "bigint"))
    return sql.SQL("{}::{}").format(sql.Literal(render_axis(key_type, line)), kind)
