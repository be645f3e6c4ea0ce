"""Compile functions and constructs that give the same bytes in both engines, each by its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from thermocline.gateway.sql.expressions.casts import canonical_type, cast_datetime, cast_timestamp
from thermocline.gateway.sql.expressions.comparisons import check_comparable
from thermocline.gateway.sql.expressions.constants import UntypedLiteral
from thermocline.gateway.sql.expressions.expressions import CompileFunction, ExpressionCompiler
from thermocline.gateway.sql.expressions.sql_types import (
    BOOL,
    DATE,
    INT4,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    integer_to_numeric,
    numeric,
    resolve_collation,
)
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.fragments import fill_template
from thermocline.gateway.sql.syntax.syntax_tree import literal_text, strip_parentheses
from thermocline.gateway.sql.syntax.token_checks import EXTRACT_FIELDS, TRUNCATE_UNITS
from thermocline.gateway.sql.values import NotProvable

_EVEN_MICROS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_CLOCK_FIELDS = frozenset({"hour", "minute"})


def _is(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    wanted = strip_parentheses(node.args["expression"])
    negate = "NOT " if node.args.get("negate") else ""
    if isinstance(wanted, exp.Null):
        inner = expressions.term(node.this)
        term = compose_term(BOOL, f"({{}} IS {negate}NULL)", inner)
        bound = (
            expressions.names.bound(inner.column, "is not null" if negate else "is null", ()) if inner.column else None
        )
        return replace(term, bound=bound)
    if isinstance(wanted, exp.Boolean):
        truth = "TRUE" if wanted.this else "FALSE"
        sign = "IS DISTINCT FROM" if negate else "IS NOT DISTINCT FROM"
        return compose_term(BOOL, f"({{}} {sign} {truth})", expressions.condition(node.this))
    raise NotProvable("IS of an expression is left to Postgres")


def _distinct(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    left, right = expressions.pair(node.this, node.args["expression"])
    check_comparable(resolve_collation(left.sql_type, right.sql_type), "=")
    check_comparable(right.sql_type, "=")
    sign = "IS NOT DISTINCT FROM" if isinstance(node, exp.NullSafeEQ) else "IS DISTINCT FROM"
    return compose_term(BOOL, f"({{}} {sign} {{}})", left, right)


def _between(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    both = compose_term(BOOL, "({} AND {})", expressions.condition(low), expressions.condition(high))
    return compose_term(BOOL, "(NOT {})", both) if node.args.get("negate") else both


def _in(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    if node.args.get("query") is not None:
        term = expressions.queries.in_subquery(expressions.term(node.this), node.args["query"], expressions.names)
        return compose_term(BOOL, "(NOT {})", term) if node.args.get("negate") else term
    left = expressions.term(node.this)
    _check_list(expressions, left.sql_type, node.args["expressions"])
    parts = [expressions.condition(exp.EQ(this=node.this, expression=element)) for element in node.args["expressions"]]
    found = compose_term(BOOL, "(" + " OR ".join(["{}"] * len(parts)) + ")", *parts)
    if node.args.get("negate"):
        return compose_term(BOOL, "(NOT {})", found)
    return replace(found, bound=expressions.derive_bound(left, "=", node.args["expressions"]) if left.column else None)


def _check_list(expressions: ExpressionCompiler, sql_type: SqlType, elements: list[exp.Expr]) -> None:
    """Postgres resolves one type for a whole list, so a string may be parsed as the type of another element."""
    found = [expressions.term_or_literal(element) for element in elements]
    if any(isinstance(part, UntypedLiteral) and part.text is not None for part in found) and any(
        not isinstance(part, UntypedLiteral) and part.sql_type.family != sql_type.family for part in found
    ):
        raise NotProvable("strings beside elements of other types in one list")


def _like(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    left, text = expressions.term(node.this), literal_text(node.args["expression"])
    if left.sql_type.family != "text" or text is None or "\\" in text:
        raise NotProvable("LIKE is followed for plain patterns only")
    term = compose_term(BOOL, "({} LIKE {})", left, expressions.term(node.args["expression"], expressions.setting.text))
    return compose_term(BOOL, "(NOT {})", term) if node.args.get("negate") else term


def _case(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    subject = node.args.get("this")
    branches = []
    for branch in node.args["ifs"]:
        test = branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
        condition = expressions.condition(test)
        if not condition.relation_numbers:
            raise NotProvable("CASE of a constant, which Postgres decides when it plans")
        branches.append((condition, branch.args["true"]))
    results = [result for _, result in branches] + [node.args.get("default") or exp.Null()]
    sql_type = common_sql_type(expressions, results)
    terms = [_cast_to(expressions.term(result, sql_type), sql_type) for result in results]
    template = "CASE " + " ".join(["WHEN {} THEN {}"] * len(branches)) + " ELSE {} END"
    parts = [part for (test, _), result in zip(branches, terms, strict=False) for part in (test, result)]
    return compose_term(sql_type, f"({template})", *parts, terms[-1])


def _coalesce(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    nodes = [node.this, *node.args.get("expressions", [])]
    if any(not expressions.term(part).relation_numbers for part in nodes[:-1]):
        raise NotProvable("COALESCE of a constant, which Postgres decides when it plans")
    sql_type = common_sql_type(expressions, nodes)
    terms = [_cast_to(expressions.term(part, sql_type), sql_type) for part in nodes]
    return compose_term(sql_type, "coalesce(" + ", ".join(["{}"] * len(terms)) + ")", *terms)


def _nullif(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    left, right = expressions.pair(node.this, node.args["expression"])
    if left.sql_type.family != right.sql_type.family:
        raise NotProvable("NULLIF of different kinds is left to Postgres")
    check_comparable(resolve_collation(left.sql_type, right.sql_type), "=")
    return compose_term(left.sql_type, "nullif({}, {})", left, right)


def common_sql_type(expressions: ExpressionCompiler, nodes: list[exp.Expr]) -> SqlType:
    """The common type of all results: numerics must have one scale, integers take the widest type. A string is accepted
    only as text: parsed as another type, it could show other digits.
    """
    found = [expressions.term_or_literal(node) for node in nodes]
    sql_types = [part.sql_type for part in found if not isinstance(part, UntypedLiteral)]
    if not sql_types:
        return expressions.setting.text
    if sql_types[0].family != "text" and any(
        isinstance(part, UntypedLiteral) and part.text is not None for part in found
    ):
        raise NotProvable("a string among results of another type is left to Postgres")
    if all(sql_type.is_integer for sql_type in sql_types):
        return max(sql_types, key=lambda sql_type: sql_type.declared.size)
    if (
        all(sql_type.family == "numeric" for sql_type in sql_types)
        and len({sql_type.scale for sql_type in sql_types}) == 1
    ):
        return max(sql_types, key=lambda sql_type: sql_type.precision)
    if len({sql_type.family for sql_type in sql_types}) == 1 and sql_types[0].family != "numeric":
        return reduce(resolve_collation, sql_types)
    raise NotProvable("results of different kinds are left to Postgres")


def _cast_to(term: Term, sql_type: SqlType) -> Term:
    if (
        term.sql_type.family == sql_type.family
        and term.sql_type.family == "numeric"
        and term.sql_type.scale != sql_type.scale
    ):
        raise NotProvable("numerics with different digits are left to Postgres")
    if term.sql_type == sql_type:
        return term
    return compose_term(
        sql_type, f"CAST({{}} AS {sql_type.duckdb_type})", term, heap=f"CAST({{}} AS {sql_type.postgres_type})"
    )


def _extract(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    part = str(node.this.this).lower()
    inner = expressions.term(node.args["expression"])
    if (
        part not in EXTRACT_FIELDS
        or not inner.sql_type.is_datetime
        or (inner.sql_type.family == "date" and part in _CLOCK_FIELDS)
    ):
        raise NotProvable(f"EXTRACT of {part} is left to Postgres")
    _check_zone(expressions, inner.sql_type)
    moment = cast_timestamp(inner)
    # Years BC are counted differently: such a row sends the statement to Postgres.
    duckdb = fill_template(
        (
            f"CAST(CASE WHEN {{}} < TIMESTAMP '0001-01-01' THEN error('before year 1') ELSE extract({part} FROM "
            f"{{}}) END AS DECIMAL(18, 0))"
        ),
        [moment, moment],
    )
    return replace(compose_term(numeric(18, 0), "{}", inner, heap=f"extract({part} FROM {{}})"), duckdb=duckdb)


def _truncate(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    unit = str(node.args["unit"].this).lower()
    inner = expressions.term(node.this)
    if unit not in TRUNCATE_UNITS or not inner.sql_type.is_datetime:
        raise NotProvable(f"date_trunc to {unit} is left to Postgres")
    sql_type = TIMESTAMP if inner.sql_type.family == "timestamp" else TIMESTAMPTZ
    _check_zone(expressions, sql_type)
    term = compose_term(sql_type, "{}", inner, heap=f"date_trunc('{unit}', {{}})")
    make = "make_timestamptz" if sql_type is TIMESTAMPTZ else "make_timestamp"
    if unit in _EVEN_MICROS and inner.sql_type.family != "date":
        # UTC has no daylight saving time, so subtracting the remainder is enough.
        micros, size = fill_template("epoch_us({})", [inner.duckdb]), _EVEN_MICROS[unit]
        return replace(
            term, duckdb=fill_template(f"{make}({{}} - ((({{}} % {size}) + {size}) % {size}))", [micros, micros])
        )
    # DuckDB rewrites a comparison of date_trunc with a constant and ignores NULL; inside a call it does not.
    return replace(term, duckdb=fill_template(f"{make}(epoch_us(date_trunc('{unit}', {{}})))", [cast_timestamp(inner)]))


def _check_zone(expressions: ExpressionCompiler, sql_type: SqlType) -> None:
    if sql_type.family == "timestamptz" and not expressions.setting.utc:
        raise NotProvable("the session's time zone is not UTC")


def _cast(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    target = node.args["to"]
    found = expressions.term_or_literal(node.this)
    sql_type = canonical_type(target)
    if sql_type is None or isinstance(found, UntypedLiteral):
        raise NotProvable(f"a cast to {target.sql(dialect='postgres')} is left to Postgres")
    source = found.sql_type
    if source.family == sql_type.family:
        # A cast without a type modifier keeps a numeric's scale.
        return found.with_type(replace(source, oid=sql_type.oid)) if sql_type.family == "text" else found
    if source.is_integer and sql_type.is_integer:
        return _cast_to(found, sql_type)
    if source.is_integer and sql_type.family == "numeric":
        return compose_term(
            integer_to_numeric(source),
            f"CAST({{}} AS {integer_to_numeric(source).duckdb_type})",
            found,
            heap="CAST({} AS numeric)",
        )
    if source.is_datetime and sql_type.is_datetime:
        if "timestamptz" in (source.family, sql_type.family):
            _check_zone(expressions, TIMESTAMPTZ)
        if sql_type.family == "date":
            return replace(
                compose_term(DATE, "{}", found, heap="CAST({} AS date)"),
                duckdb=fill_template("CAST({} AS DATE)", [cast_timestamp(found)]),
            )
        return cast_datetime(found, sql_type)
    if source.is_integer and sql_type.oid == TEXT.oid:
        return compose_term(expressions.setting.text, "CAST({} AS VARCHAR)", found, heap="CAST({} AS text)")
    raise NotProvable(f"a cast from {source.family} to {sql_type.family} is left to Postgres")


def _length(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    return compose_term(INT4, "CAST(length({}) AS INTEGER)", _text(expressions, node.this), heap="length({})")


def _substring(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    start, length = node.args.get("start"), node.args.get("length")
    for bound in (start, length):
        if bound is not None and not _is_count(bound):
            raise NotProvable("SUBSTRING is followed for constant places only")
    if start is None or int(str(start.this)) < 1:
        raise NotProvable("SUBSTRING before the beginning is left to Postgres")
    inner = _text(expressions, node.this)
    tail = f", {int(str(length.this))}" if length is not None else ""
    return compose_term(inner.sql_type, f"substring({{}}, {int(str(start.this))}{tail})", inner).with_type(
        replace(inner.sql_type, oid=25)
    )


def _is_count(node: exp.Expr) -> bool:
    """Whether the node is an integer literal. A string may select another function, as in `substring(x from
    'pattern')`."""
    text = str(node.this)
    return isinstance(node, exp.Literal) and not node.is_string and text.isascii() and text.isdigit() and len(text) < 9


def _left(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    count = node.args["expression"]
    if not _is_count(count):
        raise NotProvable("LEFT is followed for constant lengths only")
    inner = _text(expressions, node.this)
    name = "left" if isinstance(node, exp.Left) else "right"
    return compose_term(inner.sql_type, f"{name}({{}}, {int(str(count.this))})", inner).with_type(
        replace(inner.sql_type, oid=25)
    )


def _concatenate(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    text = expressions.setting.text
    left, right = expressions.term(node.this, text), expressions.term(node.args["expression"], text)
    if left.sql_type.family != "text" or right.sql_type.family != "text":
        raise NotProvable("|| of other things than text is left to Postgres")
    return compose_term(replace(resolve_collation(left.sql_type, right.sql_type), oid=25), "({} || {})", left, right)


def _text(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    term = expressions.term(node, expressions.setting.text)
    if term.sql_type.family != "text":
        raise NotProvable("a function of text, given something else")
    return term


def _absolute(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    inner = expressions.term(node.this)
    if not inner.sql_type.is_number:
        raise NotProvable("ABS of something that is no exact number")
    return compose_term(inner.sql_type, "abs({})", inner)


def _round(expressions: ExpressionCompiler, node: exp.Expr) -> Term:
    inner, decimals = expressions.term(node.this), node.args.get("decimals")
    digits = (
        0
        if decimals is None
        else int(str(decimals.this))
        if isinstance(decimals, exp.Literal) and not decimals.is_string
        else -1
    )
    if inner.sql_type.family != "numeric" or not 0 <= digits <= inner.sql_type.scale:
        raise NotProvable("ROUND is followed for numerics and fewer digits only")
    sql_type = numeric(inner.sql_type.precision - inner.sql_type.scale + digits + 1, digits)
    return compose_term(
        sql_type, f"CAST(round({{}}, {digits}) AS {sql_type.duckdb_type})", inner, heap=f"round({{}}, {digits})"
    )


FUNCTIONS: Mapping[type[exp.Expr], CompileFunction] = {
    exp.Is: _is,
    exp.NullSafeEQ: _distinct,
    exp.NullSafeNEQ: _distinct,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.Cast: _cast,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _left,
    exp.DPipe: _concatenate,
    exp.Abs: _absolute,
    exp.Round: _round,
}
