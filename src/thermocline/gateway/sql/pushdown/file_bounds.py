"""Bounds on file statistics that follow from a condition."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.pushdown.operands import COMPARISONS, MIRRORED, Operands
from thermocline.gateway.sql.syntax.syntax_tree import strip_parentheses
from thermocline.gateway.sql.table_scan import bound_value
from thermocline.gateway.sql.values import Constant, parse_value
from thermocline.lake.read.scan import Bound, BoundValue, Op


def derive_bound(node: exp.Expr, scope: Operands) -> Bound | None:
    """The bound on file statistics that a provable conjunct implies, or `None`."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Is) and isinstance(strip_parentheses(node.expression), exp.Null):
        column = scope.column(node.this)
        return Bound(field=column.field, op="is not null" if node.args.get("negate") else "is null") if column else None
    if isinstance(node, exp.EQ) and isinstance(strip_parentheses(node.expression), exp.Any):
        return _bound(scope.column(node.this), "=", scope.array(strip_parentheses(node.expression).this) or ())
    if isinstance(node, exp.In) and node.expressions:
        constants = [scope.constant(element) for element in node.expressions]
        return _bound(scope.column(node.this), "=", [c for c in constants if c is not None])
    if type(node) not in COMPARISONS or isinstance(node, exp.NEQ):
        return None
    left, right = scope.column(node.this), scope.column(node.expression)
    if (left is None) == (right is None):
        return None
    constant = scope.constant(node.expression if left else node.this)
    op = COMPARISONS[type(node)]
    return _bound(left or right, op if left else MIRRORED[op], [constant]) if constant else None


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
