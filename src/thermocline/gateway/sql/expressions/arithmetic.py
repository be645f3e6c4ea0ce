"""Arithmetic on integers and numerics."""

from __future__ import annotations

from sqlglot import exp

from thermocline.gateway.sql.expressions.constants import decimal
from thermocline.gateway.sql.expressions.sql_types import integer_to_numeric, numeric
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.syntax.syntax_tree import literal_text, strip_parentheses
from thermocline.gateway.sql.values import NotProvable


def compile_integer_arithmetic(node: exp.Expr, first: Term, second: Term) -> Term:
    sql_type = first.sql_type if first.sql_type.declared.size >= second.sql_type.declared.size else second.sql_type
    match node:
        case exp.Add():
            return compose_term(sql_type, "({} + {})", first, second)
        case exp.Sub():
            return compose_term(sql_type, "({} - {})", first, second)
        case exp.Mul():
            return compose_term(sql_type, "({} * {})", first, second)
    divisor = literal_text(node.args["expression"])
    if divisor is None or not divisor.isdigit() or not divisor.strip("0"):
        raise NotProvable("division by something that may be zero is left to Postgres")
    if isinstance(node, exp.Div):
        return compose_term(sql_type, "({} // {})", first, second, heap="({} / {})")
    return compose_term(sql_type, "({} %% {})".replace("%%", "%"), first, second)


def compile_numeric_arithmetic(node: exp.Expr, first: Term, second: Term) -> Term:
    """DuckDB's result has the same scale and another precision; where that overflows, the statement is left to
    Postgres."""
    first, second = _narrow_literal(node.this, first), _narrow_literal(node.args["expression"], second)
    one, two = integer_to_numeric(first.sql_type), integer_to_numeric(second.sql_type)
    first = (
        first
        if first.sql_type.family == "numeric"
        else compose_term(one, f"CAST({{}} AS {one.duckdb_type})", first, heap="CAST({} AS numeric)")
    )
    second = (
        second
        if second.sql_type.family == "numeric"
        else compose_term(two, f"CAST({{}} AS {two.duckdb_type})", second, heap="CAST({} AS numeric)")
    )
    scale = max(one.scale, two.scale)
    whole = max(one.precision - one.scale, two.precision - two.scale)
    match node:
        case exp.Add():
            return compose_term(numeric(whole + scale + 1, scale), "({} + {})", first, second)
        case exp.Sub():
            return compose_term(numeric(whole + scale + 1, scale), "({} - {})", first, second)
        case exp.Mul() if one.scale + two.scale <= 20:
            return compose_term(
                numeric(one.precision + two.precision, one.scale + two.scale), "({} * {})", first, second
            )
    raise NotProvable("division of numerics is left to Postgres")


def _narrow_literal(node: exp.Expr, term: Term) -> Term:
    """An integer literal as a decimal with only the digits it has: narrow decimals are fast."""
    node = strip_parentheses(node)
    return decimal(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else term
