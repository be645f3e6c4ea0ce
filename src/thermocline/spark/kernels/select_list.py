"""The SQL of one copy task, made in one pure place: what each column is read as, and how Postgres hashes a whole row.

The inner query gives every value its lake form once; the outer one adds the hash, so a text form is computed once and not twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from thermocline.core.coltypes import LakeColumn
from thermocline.core.names import TableName
from thermocline.spark.kernels.checksum import LONG_BYTES

HASH_COLUMN = "_h"


def plan_copy_query(table: TableName, columns: Sequence[LakeColumn], lo_block: int, hi_block: int | None) -> sql.Composed:
    """Every row of a block range in lake form, with its hash as the last column."""
    return sql.SQL("select *, {hash} from (select {values} from only {table} where {where} offset 0) as copied").format(
        hash=plan_row_hash(columns),
        values=sql.SQL(", ").join(
            sql.SQL("{} as {}").format(plan_value(column), sql.Identifier(_alias(position))) for position, column in enumerate(columns)
        ),
        table=sql.Identifier(table.schema, table.table),
        where=plan_block_range(lo_block, hi_block),
    )


def plan_delta_query(delta: TableName, columns: Sequence[LakeColumn], condition: sql.Composable) -> sql.Composed:
    """The delta rows that a condition picks, in lake form, then `_op`, `_version` and the row's hash."""
    return sql.SQL("select *, {hash} from (select {values}, _op, _version from {delta} d where {condition} offset 0) as taken").format(
        hash=plan_row_hash(columns),
        values=sql.SQL(", ").join(
            sql.SQL("{} as {}").format(plan_value(column), sql.Identifier(_alias(position))) for position, column in enumerate(columns)
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
    """A column in the form the lake keeps: as it is, or in Postgres' text form. Decimals travel as text: exact, and cheap to read."""
    name = sql.Identifier(column.name)
    if column.form == "text" or column.lake_type.startswith("decimal"):
        return sql.SQL("{}::pg_catalog.text").format(name)
    return name


def plan_row_hash(columns: Sequence[LakeColumn]) -> sql.Composed:
    """hash_record_extended over the inner query's columns; `checksum.py` computes the same from the lake's values."""
    hashed = [_hashed_form(sql.Identifier(_alias(position)), column) for position, column in enumerate(columns)]
    return sql.SQL("pg_catalog.hash_record_extended(row({}), 0) as {}").format(sql.SQL(", ").join(hashed), sql.Identifier(HASH_COLUMN))


def _hashed_form(name: sql.Identifier, column: LakeColumn) -> sql.Composable:
    if column.lake_type.startswith("decimal"):
        return sql.SQL('{} collate pg_catalog."C"').format(name)
    if column.lake_type == "string":
        return sql.SQL(
            "case when pg_catalog.octet_length({name}) > {long} "
            "then pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({name}, 'UTF8')), 'hex') "
            'else {name}::pg_catalog.text end collate pg_catalog."C"'
        ).format(name=name, long=sql.Literal(LONG_BYTES))
    if column.lake_type == "binary":
        return sql.SQL("case when pg_catalog.octet_length({name}) > {long} then pg_catalog.sha256({name}) else {name} end").format(
            name=name, long=sql.Literal(LONG_BYTES)
        )
    return name


def _alias(position: int) -> str:
    return f"c{position}"
