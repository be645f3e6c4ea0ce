"""Aggregates and window functions that are exact in DuckDB, and how the partial results of both tiers are combined."""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.expressions.expressions import ExpressionCompiler
from thermocline.gateway.sql.expressions.sql_types import BOOL, INT8, SqlType, numeric
from thermocline.gateway.sql.expressions.terms import Term, compose_term, select_list
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.values import NotProvable

AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)
_RANKS = {exp.RowNumber: "row_number()", exp.Rank: "rank()", exp.DenseRank: "dense_rank()"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate. `heap` and `combine` are None where partial results cannot be combined."""

    sql_type: SqlType
    duckdb: Fragment
    heap: sql.Composable | None
    combine: str | None


def read_aggregate(expressions: ExpressionCompiler, node: exp.Expr) -> Aggregate:
    """Compile an aggregate call, with FILTER and DISTINCT. Averages are divided by Postgres."""
    condition = None
    if isinstance(node, exp.Filter):
        condition = expressions.condition(node.args["expression"].this)
        node = node.this
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        if condition is not None and not expressions.names.is_local(condition.relation_numbers):
            raise NotProvable("an aggregate over columns of the query around it, which may be that query's own")
        return _make_aggregate(INT8, "count(*)", None, condition, combine="CAST(coalesce(sum({}), 0) AS BIGINT)")
    argument, distinct = node.this, False
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1:
            raise NotProvable("DISTINCT over several columns is left to Postgres")
        argument, distinct = argument.expressions[0], True
    term = expressions.term(argument)
    if not all(expressions.names.is_local(part.relation_numbers) for part in (term, condition) if part is not None):
        raise NotProvable("an aggregate over columns of the query around it, which may be that query's own")
    if distinct and not term.sql_type.has_equality:
        raise NotProvable("DISTINCT of floats is left to Postgres")
    word = "DISTINCT " if distinct else ""
    aggregate = _aggregate_of(node, term, word, condition)
    return replace(aggregate, combine=None) if distinct else aggregate


def _aggregate_of(node: exp.Expr, term: Term, word: str, condition: Term | None) -> Aggregate:
    sql_type = term.sql_type
    match node:
        case exp.Count():
            return _make_aggregate(
                INT8, f"count({word}{{}})", term, condition, combine="CAST(coalesce(sum({}), 0) AS BIGINT)"
            )
        case exp.Sum() if sql_type.is_number:
            result = INT8 if sql_type.family in ("int2", "int4") else numeric(38, sql_type.scale)
            cast = f"CAST({{}} AS {result.duckdb_type})"
            return _make_aggregate(
                result, f"sum({word}{{}})", term, condition, combine=cast.format("sum({})"), outer=cast
            )
        case exp.Min() | exp.Max() if sql_type.has_order and sql_type.family not in ("bool", "uuid", "bytea"):
            name = "min" if isinstance(node, exp.Min) else "max"
            result = replace(sql_type, oid=25) if sql_type.family == "text" else sql_type
            return _make_aggregate(result, f"{name}({{}})", term, condition, combine=f"{name}({{}})")
        case exp.LogicalAnd() | exp.LogicalOr() if sql_type == BOOL:
            name = "bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or"
            return _make_aggregate(BOOL, f"{name}({{}})", term, condition, combine=f"{name}({{}})")
    raise NotProvable(f"{type(node).__name__.upper()} of {sql_type.family} is left to Postgres")


def _make_aggregate(
    sql_type: SqlType, call: str, term: Term | None, condition: Term | None, *, combine: str, outer: str = "{}"
) -> Aggregate:
    parts = [part for part in (term, condition) if part is not None]
    template = call + (" FILTER (WHERE {})" if condition is not None else "")
    both = compose_term(sql_type, template, *parts)
    duckdb = fill_template(outer, [both.duckdb])
    return Aggregate(sql_type=sql_type, duckdb=duckdb, heap=both.heap, combine=combine)


def read_window(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    """Compile a window function with the default frame."""
    inner = node.this
    if type(inner) in _RANKS:
        call, sql_type = Fragment(_RANKS[type(inner)]), INT8
    else:
        if not isinstance(inner, AGGREGATES) or isinstance(inner.this, exp.Distinct):
            raise NotProvable(f"{type(inner).__name__.upper()} OVER is left to Postgres")
        aggregate = read_aggregate(expressions, inner)
        call, sql_type = aggregate.duckdb, aggregate.sql_type
    over: list[Fragment] = []
    partition = [expressions.term(part) for part in node.args.get("partition_by") or []]
    if any(not term.sql_type.has_equality for term in partition):
        raise NotProvable("PARTITION BY floats is left to Postgres")
    if partition:
        over.append(fill_template("PARTITION BY {}", [select_list(partition)]))
    order = node.args.get("order")
    if order is not None:
        keys = [fill_template(direction(part), [_compile_sort_key(expressions, part)]) for part in order.expressions]
        over.append(fill_template("ORDER BY " + ", ".join(["{}"] * len(keys)), keys))
    window = fill_template(" ".join(["{}"] * len(over)), over) if over else Fragment("")
    cast = call.text.startswith("CAST(")
    # OVER must follow the call directly, inside the cast.
    if cast:
        head, _, tail = call.text.removeprefix("CAST(").rpartition(" AS ")
        duckdb = Fragment(f"CAST({head} OVER ({window.text}) AS {tail}", call.parameters + window.parameters)
    else:
        duckdb = Fragment(f"{call.text} OVER ({window.text})", call.parameters + window.parameters)
    return Term(sql_type=sql_type, duckdb=duckdb, heap=None, relation_numbers=frozenset({-1}))


def _compile_sort_key(expressions: ExpressionCompiler, node: exp.Expr) -> Fragment:
    term = expressions.term(node.this)
    if not term.sql_type.has_order:
        raise NotProvable("an order that depends on a collation is left to Postgres")
    return term.duckdb


def direction(node: exp.Expr) -> str:
    """A sort key's template with direction and NULL order, as Postgres defaults them."""
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{{}} {'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"
