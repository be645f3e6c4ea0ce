"""Compare a lake column with a constant or another column, with Postgres' result."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal

from thermocline.core.types import LAKE_TYPES, render_duckdb_value
from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment, wrap_fragment
from thermocline.gateway.sql.values import Infinity, NotProvable, Value


def compare_columns(left: MappedColumn, op: str, right: MappedColumn) -> Fragment:
    kinds = {left.field.kind, right.field.kind}
    same = len(kinds) == 1 or kinds == {"int", "long"}
    if not same or kinds & {"float", "double", "decimal"} or left.collation != right.collation:
        raise NotProvable("columns of different kinds")
    _check_comparable(left, op)
    _check_comparable(right, op)
    return Fragment(f"{left.sql} {op} {right.sql}")


def _check_comparable(column: MappedColumn, op: str) -> None:
    if not (column.equality if op in ("=", "<>") else column.order):
        raise NotProvable(f"comparison of {column.name} depends on its type or collation in Postgres")


def compare_column(column: MappedColumn, op: str, value: Value) -> Fragment:
    """`column op value`, with Postgres' result."""
    _check_comparable(column, op)
    if isinstance(value, Infinity):
        return render_truth(column, op in (("<", "<=", "<>") if value.positive else (">", ">=", "<>")))
    if isinstance(value, float):
        return _compare_float(column, op, value)
    if isinstance(value, Decimal):
        return _compare_decimal(column, op, value)
    return Fragment(f"{column.sql} {op} {render_literal(column, value).text}", render_literal(column, value).parameters)


def render_truth(column: MappedColumn, truth: bool) -> Fragment:
    """The same result for every value, and NULL for NULL."""
    return Fragment(f"CASE WHEN {column.sql} IS NULL THEN NULL ELSE {'TRUE' if truth else 'FALSE'} END")


def _compare_float(column: MappedColumn, op: str, value: float) -> Fragment:
    # NaN is tested explicitly: Parquet's statistics leave it out, and DuckDB would skip row groups or drop the filter.
    if math.isnan(value):
        if op in ("=", ">="):
            return Fragment(f"isnan({column.sql})")
        if op in ("<>", "<"):
            return Fragment(f"NOT isnan({column.sql})")
        return render_truth(column, op == "<=")
    plain = Fragment(f"CAST({column.sql} AS DOUBLE) {op} CAST(? AS DOUBLE)", (value,))
    if op in ("<>", ">", ">="):
        return wrap_fragment(f"isnan({column.sql}) OR ", plain)
    return wrap_fragment(f"NOT isnan({column.sql}) AND ", plain)


def _compare_decimal(column: MappedColumn, op: str, value: Decimal) -> Fragment:
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + column.field.scale
    if abs(shift) > 200:
        raise NotProvable("number of an extreme size")
    magnitude = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    floor, rest = (magnitude * 10**shift, 0) if shift >= 0 else divmod(magnitude, 10**-shift)
    if rest:
        if op in ("=", "<>"):
            return render_truth(column, op == "<>")
        # Between two values of the column: "below" means up to the lower one, "above" from the upper one.
        floor, op = (floor, "<=") if op in ("<", "<=") else (floor + 1, ">=")
    limit = 10**column.field.precision
    if abs(floor) >= limit:
        return render_truth(column, op in (("<>", "<", "<=") if floor > 0 else ("<>", ">", ">=")))
    text = f"{floor}E-{column.field.scale}"
    return Fragment(f"{column.sql} {op} CAST(? AS {column.duckdb_type})", (format(Decimal(text), "f"),))


def render_literal(column: MappedColumn, value: Value) -> Fragment:
    """A value as a DuckDB parameter of the column's type."""
    declared = LAKE_TYPES[column.field.kind]
    if isinstance(value, float | Decimal | Infinity):
        raise NotProvable(f"no {column.field.kind} literal")
    if declared.text_form == "date" and isinstance(value, int):
        value = _check_bits(value, 31)
    return Fragment(render_duckdb_value(declared), (str(value) if isinstance(value, uuid.UUID) else value,))


def _check_bits(value: int, bits: int) -> int:
    if not -(2**bits) <= value < 2**bits:
        raise NotProvable("value beyond the column's range")
    return value
