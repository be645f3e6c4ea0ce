"""Conditions that DuckDB evaluates exactly as Postgres does, three-valued logic included.

A condition becomes a `Fragment`: fixed text, columns named by field id, and every value a typed parameter. Anything
else raises `NotProvable`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment, join_fragments, wrap_fragment
from thermocline.gateway.sql.pushdown.column_comparisons import compare_column, compare_columns, render_literal
from thermocline.gateway.sql.pushdown.operands import COMPARISONS, MIRRORED, Operands
from thermocline.gateway.sql.syntax.syntax_tree import flatten_operator, strip_parentheses
from thermocline.gateway.sql.values import (
    Constant,
    Infinity,
    NotProvable,
    parse_value,
)

NEVER = Fragment("FALSE")
UNKNOWN = Fragment("CAST(NULL AS BOOLEAN)")


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
    if type(node) in COMPARISONS:
        return _compile_comparison(node, COMPARISONS[type(node)], scope)
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
        same = wrap_fragment("COALESCE", compare_column(column, "=", parse_value(column.field.kind, constant)))
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
        (plain if simple else parts).append(
            render_literal(column, value) if simple else compare_column(column, "=", value)
        )
    if plain:
        select_list = Fragment(
            ", ".join(part.text for part in plain), tuple(p for part in plain for p in part.parameters)
        )
        parts.append(wrap_fragment(f"{column.sql} IN ", select_list))
    return join_fragments(" OR ", parts)


def _compile_comparison(node: exp.Expr, op: str, scope: Operands) -> Fragment:
    left, right = scope.column(node.this), scope.column(node.expression)
    if left and right:
        return compare_columns(left, op, right)
    column, other = (left, node.expression) if left else (right, node.this)
    constant = scope.constant(other)
    if column is None or constant is None:
        raise NotProvable("comparison of expressions")
    if constant.text is None:
        return UNKNOWN
    return compare_column(column, op if left else MIRRORED[op], parse_value(column.field.kind, constant))
