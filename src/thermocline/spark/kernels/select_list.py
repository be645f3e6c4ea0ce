"""The SQL of one copy task: how each column is read, and how Postgres hashes a whole row. Pure.

The inner query converts every value to its lake form; the outer one adds the hash, so that a text form is computed
once.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.core.types import LAKE_TYPES, lake_type_named
from thermocline.parquet.values.arrow_types import NOT_A_NUMBER, arrow_type, travels_whole
from thermocline.parquet.values.row_checksum import LONG_BYTES, seed_of

HASH_COLUMN = "_h"


def plan_copy_query(
    table: TableName, columns: Sequence[LakeColumn], lo_block: int, hi_block: int | None, server_version: int = 0
) -> sql.Composed:
    """Every row of a block range in lake form, with its hash as the last column; `server_version` as in libpq, or 0 for
    any."""
    return sql.SQL("select *, {hash} from (select {values} from only {table} where {where} offset 0) as copied").format(
        hash=plan_row_hash(columns, server_version),
        values=sql.SQL(", ").join(
            sql.SQL("{} as {}").format(plan_value(column), sql.Identifier(_alias(position)))
            for position, column in enumerate(columns)
        ),
        table=sql.Identifier(table.schema, table.table),
        where=plan_block_range(lo_block, hi_block),
    )


def plan_delta_query(delta: TableName, columns: Sequence[LakeColumn], condition: sql.Composable) -> sql.Composed:
    """The delta rows that a condition selects, in lake form, then `_op`, `_version` and the row's hash."""
    return sql.SQL(
        "select *, {hash} from (select {values}, _op, _version from {delta} d where {condition} offset 0) as taken"
    ).format(
        hash=plan_row_hash(columns),
        values=sql.SQL(", ").join(
            sql.SQL("{} as {}").format(plan_value(column), sql.Identifier(_alias(position)))
            for position, column in enumerate(columns)
        ),
        delta=sql.Identifier(delta.schema, delta.table),
        condition=condition,
    )


def plan_block_range(lo_block: int, hi_block: int | None) -> sql.Composed:
    """The rows of blocks lo_block up to, not including, hi_block."""
    low = sql.SQL("ctid >= {}::pg_catalog.tid").format(sql.Literal(f"({lo_block},0)"))
    if hi_block is None:
        return sql.Composed([low])
    return sql.SQL("{} and ctid < {}::pg_catalog.tid").format(low, sql.Literal(f"({hi_block},0)"))


def plan_value(column: LakeColumn) -> sql.Composable:
    """A column as it is transferred: as it is, in Postgres' text form, or, for small decimals, as an unscaled
    integer."""
    name = sql.Identifier(column.name)
    if travels_whole(column.lake_type):
        return sql.SQL(
            "case when {name} = 'NaN'::pg_catalog.numeric then {nan}::pg_catalog.int8 else {whole}::pg_catalog.int8 end"
        ).format(
            name=name,
            nan=sql.Literal(str(NOT_A_NUMBER)),
            whole=_without_point(name, arrow_type(column.lake_type).scale),
        )
    if column.form == "text" or lake_type_named(column.lake_type).storage == "decimal":
        return plan_text(column, name)
    return name


def plan_text(column: LakeColumn, name: sql.Composable) -> sql.Composable:
    """A value as its type's output function writes it, which its input function reads back. Never `::text`: that is a
    cast, a user may have made one of his own, and bpchar's takes trailing blanks away. Those of char(n) go; reading it
    back pads it again.

    `concat` calls the output function of whatever it is given, and gives no NULL; a composite of NULLs is none (`is
    null` says it is).
    """
    written = sql.SQL("pg_catalog.concat({})").format(name)
    if column.base_type == "bpchar" and column.pg_type != "bpchar":
        written = sql.SQL("pg_catalog.rtrim({})").format(written)
    return sql.SQL("case when {} is distinct from null then {} end").format(name, written)


def _without_point(name: sql.Identifier, scale: int) -> sql.Composable:
    return sql.SQL("({} * {}::pg_catalog.numeric)").format(name, sql.Literal(10**scale)) if scale else name


def plan_row_hash(columns: Sequence[LakeColumn], server_version: int = 0) -> sql.Composed:
    """A row's hash over the inner query's columns; `row_checksum.py` computes the same from the lake's values."""
    hashed = [
        _hash_of(sql.Identifier(_alias(position)), column, seed_of(position), server_version)
        for position, column in enumerate(columns)
    ]
    return sql.SQL("{} as {}").format(sql.SQL(" # ").join(hashed), sql.Identifier(HASH_COLUMN))


def _hash_of(name: sql.Identifier, column: LakeColumn, seed: int, server_version: int) -> sql.Composable:
    """A value's hash with its column's seed, 0 for NULL. Both forms give the same number; calling the function directly
    is cheaper."""
    declared = lake_type_named(column.lake_type)
    if declared.storage == "decimal" and not travels_whole(column.lake_type):
        declared = LAKE_TYPES["string"]
    function = declared.hash_function if server_version >= declared.hash_function_since else None
    form, number = _hashed_form(name, column), sql.Literal(seed)
    if function is None:
        return sql.SQL("pg_catalog.hash_record_extended(row({}), {})").format(form, number)
    call = sql.SQL("{}({}, {})").format(sql.Identifier("pg_catalog", function), form, number)
    return call if column.required else sql.SQL("coalesce({}, 0)").format(call)


def _hashed_form(name: sql.Identifier, column: LakeColumn) -> sql.Composable:
    match lake_type_named(column.lake_type).storage:
        case "boolean":
            return sql.SQL("{}::pg_catalog.int4").format(name)
        case "decimal" if not travels_whole(column.lake_type):
            return sql.SQL('{} collate pg_catalog."C"').format(name)
        case "text":
            return sql.SQL(
                "case when pg_catalog.octet_length({name}) > {long} "
                "then pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({name}, 'UTF8')), 'hex') "
                'else {name}::pg_catalog.text end collate pg_catalog."C"'
            ).format(name=name, long=sql.Literal(LONG_BYTES))
        case "bytes":
            return sql.SQL(
                "case when pg_catalog.octet_length({name}) > {long} then pg_catalog.sha256({name}) else {name} end"
            ).format(name=name, long=sql.Literal(LONG_BYTES))
    return name


def _alias(position: int) -> str:
    return f"c{position}"
