"""Conditions that DuckDB may evaluate because its answer is Postgres' answer, in three-valued logic too.

A condition becomes a `Fragment`: text made only of our own words, columns named by field id, and every value a typed
parameter. Whatever is not on this list raises `NotProvable`.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal

from sqlglot import exp

from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment, join_fragments, wrap_fragment
from thermocline.gateway.sql.syntax_tree import flatten_operator, strip_parentheses
from thermocline.gateway.sql.table_scan import bound_value
from thermocline.gateway.sql.values import (
    Constant,
    ConstantType,
    Infinity,
    NotProvable,
    Value,
    parse_array,
    parse_value,
)
from thermocline.lake.read.scan import Bound, BoundValue, Op

NEVER = Fragment("FALSE")
UNKNOWN = Fragment("CAST(NULL AS BOOLEAN)")

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_CONSTANT_TYPES: dict[exp.DType, ConstantType] = {
    exp.DType.SMALLINT: "int",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "int",
    exp.DType.DECIMAL: "decimal",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.DATE: "date",
    exp.DType.TIME: "time",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
    exp.DType.UUID: "uuid",
    exp.DType.VARBINARY: "binary",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "text",
}


class Operands:
    """What names and parameters mean in one statement."""

    def __init__(self, column: Callable[[exp.Column], MappedColumn], parameters: Sequence[Constant]) -> None:
        self._column = column
        self._parameters = parameters

    def column(self, node: exp.Expr) -> MappedColumn | None:
        """The column an operand is, or `None` when it is something else. `name::text` on a text column is the
        column."""
        node = strip_parentheses(node)
        inner = strip_parentheses(node.this) if isinstance(node, exp.Cast) else None
        if isinstance(node, exp.Cast) and isinstance(inner, exp.Column):
            mapped_table = self._column(inner)
            kind = node.to
            plain = (
                isinstance(kind, exp.DataType)
                and kind.this in (exp.DType.TEXT, exp.DType.VARCHAR)
                and not kind.expressions
            )
            return mapped_table if plain and mapped_table.field.kind == "string" and mapped_table.equality else None
        return self._column(node) if isinstance(node, exp.Column) else None

    def constant(self, node: exp.Expr) -> Constant | None:
        """The constant an operand is, or `None`."""
        node = strip_parentheses(node)
        match node:
            case exp.Null():
                return Constant(None, "unknown")
            case exp.Boolean():
                return Constant("t" if node.this else "f", "boolean")
            case exp.Literal():
                return Constant(str(node.this), "unknown" if node.is_string else "number")
            case exp.Neg() if (
                isinstance(strip_parentheses(node.this), exp.Literal) and not strip_parentheses(node.this).is_string
            ):
                return Constant("-" + str(strip_parentheses(node.this).this), "number")
            case exp.Parameter():
                return self._parameter(node)
            case exp.Cast():
                return self._cast(node)
        return None

    def _parameter(self, node: exp.Parameter) -> Constant:
        number = int(str(node.this.this)) - 1
        if not 0 <= number < len(self._parameters):
            raise NotProvable(f"parameter ${number + 1} has no value")
        return self._parameters[number]

    def _cast(self, node: exp.Cast) -> Constant | None:
        inner = self.constant(node.this)
        if inner is None or not isinstance(node.to, exp.DataType):
            return None
        kind = constant_type(node.to)
        if kind is None or inner.type not in ("unknown", "number", kind):
            return None
        return Constant(inner.text, kind)

    def array(self, node: exp.Expr) -> tuple[Constant, ...] | None:
        """The elements of an array constant, or `None`."""
        node = strip_parentheses(node)
        if isinstance(node, exp.Array):
            elements = tuple(self.constant(element) for element in node.expressions)
            return None if any(element is None for element in elements) else tuple(e for e in elements if e is not None)
        if not isinstance(node, exp.Cast) or not isinstance(node.to, exp.DataType) or node.to.this != exp.DType.ARRAY:
            return None
        kind = constant_type(node.to.expressions[0]) if len(node.to.expressions) == 1 else None
        source = self.constant(node.this)
        if kind is None or source is None or source.type != "unknown" or source.text is None:
            return None
        return tuple(Constant(text, kind) for text in parse_array(source.text))


def constant_type(kind: exp.DataType) -> ConstantType | None:
    """What a cast makes of a constant; a length or precision would change the value, so it is not followed."""
    return None if kind.expressions else _CONSTANT_TYPES.get(kind.this)


def compile_condition(node: exp.Expr, scope: Operands) -> Fragment:
    """The condition for DuckDB."""
    node = strip_parentheses(node)
    match node:
        case exp.And():
            return join_fragments(" AND ", [compile_condition(part, scope) for part in flatten_operator(node, exp.And)])
        case exp.Or():
            return join_fragments(" OR ", [compile_condition(part, scope) for part in flatten_operator(node, exp.Or)])
        case exp.Not():
            return wrap_fragment("NOT ", compile_condition(node.this, scope))
        case exp.Is():
            return _compile_is(node, scope)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _compile_distinct(node, scope)
        case exp.Between():
            low, high = (
                exp.GTE(this=node.this, expression=node.args["low"]),
                exp.LTE(this=node.this, expression=node.args["high"]),
            )
            return join_fragments(" AND ", [compile_condition(low, scope), compile_condition(high, scope)])
        case exp.In():
            constants = [scope.constant(element) for element in node.expressions]
            return _compile_any(scope.column(node.this), constants)
        case exp.EQ() if isinstance(strip_parentheses(node.expression), exp.Any):
            return _compile_any(scope.column(node.this), scope.array(strip_parentheses(node.expression).this))
        case exp.Column() | exp.Boolean():
            return _compile_boolean(node, scope)
    if type(node) in _COMPARISONS:
        return _compile_comparison(node, _COMPARISONS[type(node)], scope)
    raise NotProvable(f"{type(node).__name__} is left to Postgres")


def _compile_boolean(node: exp.Expr, scope: Operands) -> Fragment:
    if isinstance(node, exp.Boolean):
        return Fragment("TRUE" if node.this else "FALSE")
    column = scope.column(node)
    if column is None or column.field.kind != "boolean" or not column.equality:
        raise NotProvable("not a boolean column")
    return Fragment(column.sql)


def _compile_is(node: exp.Expr, scope: Operands) -> Fragment:
    wanted = strip_parentheses(node.expression)
    if isinstance(wanted, exp.Null):
        column = scope.column(node.this)
        if column is None:
            raise NotProvable("IS NULL of an expression")
        return Fragment(f"{column.sql} IS {'NOT ' if node.args.get('negate') else ''}NULL")
    if isinstance(wanted, exp.Boolean) and not node.args.get("negate"):
        return wrap_fragment(
            "", compile_condition(node.this, scope), " IS NOT DISTINCT FROM " + ("TRUE" if wanted.this else "FALSE")
        )
    raise NotProvable("IS of an expression")


def _compile_distinct(node: exp.Expr, scope: Operands) -> Fragment:
    column, constant = scope.column(node.this), scope.constant(node.expression)
    if column is None:
        column, constant = scope.column(node.expression), scope.constant(node.this)
    if column is None or constant is None:
        raise NotProvable("IS DISTINCT FROM of expressions")
    if constant.text is None:
        same = Fragment(f"{column.sql} IS NULL")
    else:
        same = wrap_fragment("COALESCE", compare(column, "=", parse_value(column.field.kind, constant)))
        same = Fragment(same.text[:-1] + ", FALSE)", same.parameters)
    return same if isinstance(node, exp.NullSafeEQ) else wrap_fragment("NOT ", same)


def _compile_any(column: MappedColumn | None, constants: Sequence[Constant | None] | None) -> Fragment:
    if column is None or constants is None or not column.equality:
        raise NotProvable("= ANY of expressions")
    if not constants:
        return NEVER
    parts: list[Fragment] = []
    plain: list[Fragment] = []
    for constant in constants:
        if constant is None:
            raise NotProvable("= ANY of expressions")
        if constant.text is None:
            plain.append(Fragment("NULL"))
            continue
        value = parse_value(column.field.kind, constant)
        simple = column.field.kind not in ("float", "double", "decimal") and not isinstance(value, Infinity)
        (plain if simple else parts).append(literal(column, value) if simple else compare(column, "=", value))
    if plain:
        listed = Fragment(", ".join(part.text for part in plain), tuple(p for part in plain for p in part.parameters))
        parts.append(wrap_fragment(f"{column.sql} IN ", listed))
    return join_fragments(" OR ", parts)


def _compile_comparison(node: exp.Expr, op: str, scope: Operands) -> Fragment:
    left, right = scope.column(node.this), scope.column(node.expression)
    if left and right:
        return _compare_columns(left, op, right)
    column, other = (left, node.expression) if left else (right, node.this)
    constant = scope.constant(other)
    if column is None or constant is None:
        raise NotProvable("comparison of expressions")
    if constant.text is None:
        return UNKNOWN
    return compare(column, op if left else _MIRRORED[op], parse_value(column.field.kind, constant))


def _compare_columns(left: MappedColumn, op: str, right: MappedColumn) -> Fragment:
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


def compare(column: MappedColumn, op: str, value: Value) -> Fragment:
    """`column op value` as Postgres decides it."""
    _check_comparable(column, op)
    if isinstance(value, Infinity):
        return constant_truth(column, op in (("<", "<=", "<>") if value.positive else (">", ">=", "<>")))
    if isinstance(value, float):
        return _compare_float(column, op, value)
    if isinstance(value, Decimal):
        return _compare_decimal(column, op, value)
    return Fragment(f"{column.sql} {op} {literal(column, value).text}", literal(column, value).parameters)


def constant_truth(column: MappedColumn, truth: bool) -> Fragment:
    """The same answer for every value, unknown for null."""
    return Fragment(f"CASE WHEN {column.sql} IS NULL THEN NULL ELSE {'TRUE' if truth else 'FALSE'} END")


def _compare_float(column: MappedColumn, op: str, value: float) -> Fragment:
    # NaN is spelt out: Parquet's statistics leave it out, and DuckDB would skip row groups or drop the filter by them.
    if math.isnan(value):
        if op in ("=", ">="):
            return Fragment(f"isnan({column.sql})")
        if op in ("<>", "<"):
            return Fragment(f"NOT isnan({column.sql})")
        return constant_truth(column, op == "<=")
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
            return constant_truth(column, op == "<>")
        # Between two values of the column: "below" means up to the lower one, "above" from the upper one.
        floor, op = (floor, "<=") if op in ("<", "<=") else (floor + 1, ">=")
    limit = 10**column.field.precision
    if abs(floor) >= limit:
        return constant_truth(column, op in (("<>", "<", "<=") if floor > 0 else ("<>", ">", ">=")))
    text = f"{floor}E-{column.field.scale}"
    return Fragment(f"{column.sql} {op} CAST(? AS {column.duckdb_type})", (format(Decimal(text), "f"),))


def literal(column: MappedColumn, value: Value) -> Fragment:
    """A value as DuckDB's value of the column's type."""
    match column.field.kind, value:
        case "date", int():
            return Fragment("(DATE '1970-01-01' + CAST(? AS INTEGER))", (_within(value, 31),))
        case "time", int():
            return Fragment("(TIME '00:00:00' + to_microseconds(CAST(? AS BIGINT)))", (value,))
        case "timestamp", int():
            return Fragment("make_timestamp(CAST(? AS BIGINT))", (value,))
        case "timestamptz", int():
            return Fragment("make_timestamptz(CAST(? AS BIGINT))", (value,))
        case "uuid", uuid.UUID():
            return Fragment("CAST(? AS UUID)", (str(value),))
        case "int" | "long", int():
            return Fragment("CAST(? AS BIGINT)", (value,))
        case "boolean", bool():
            return Fragment("CAST(? AS BOOLEAN)", (value,))
        case "string", str():
            return Fragment("CAST(? AS VARCHAR)", (value,))
        case "binary", bytes():
            return Fragment("CAST(? AS BLOB)", (value,))
    raise NotProvable(f"no {column.field.kind} literal")


def _within(value: int, bits: int) -> int:
    if not -(2**bits) <= value < 2**bits:
        raise NotProvable("value beyond the column's range")
    return value


def bounds_of(node: exp.Expr, scope: Operands) -> Bound | None:
    """What a provable conjunct tells about files, or `None` when it tells nothing."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Is) and isinstance(strip_parentheses(node.expression), exp.Null):
        column = scope.column(node.this)
        return Bound(field=column.field, op="is not null" if node.args.get("negate") else "is null") if column else None
    if isinstance(node, exp.EQ) and isinstance(strip_parentheses(node.expression), exp.Any):
        return _bound(scope.column(node.this), "=", scope.array(strip_parentheses(node.expression).this) or ())
    if isinstance(node, exp.In) and node.expressions:
        constants = [scope.constant(element) for element in node.expressions]
        return _bound(scope.column(node.this), "=", [c for c in constants if c is not None])
    if type(node) not in _COMPARISONS or isinstance(node, exp.NEQ):
        return None
    left, right = scope.column(node.this), scope.column(node.expression)
    if (left is None) == (right is None):
        return None
    constant = scope.constant(node.expression if left else node.this)
    op = _COMPARISONS[type(node)]
    return _bound(left or right, op if left else _MIRRORED[op], [constant]) if constant else None


def _bound(column: MappedColumn | None, op: str, constants: Sequence[Constant]) -> Bound | None:
    if column is None:
        return None
    values: list[BoundValue] = []
    for constant in constants:
        if constant.text is None:
            continue
        value = parse_value(column.field.kind, constant)
        encoded = bound_value(value)
        if encoded is None:
            return None
        values.append(encoded)
    return Bound(field=column.field, op=_OPS[op], values=tuple(values))


_OPS: dict[str, Op] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
