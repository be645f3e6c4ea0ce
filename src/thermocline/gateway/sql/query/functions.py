"""Functions and constructs that give the same bytes in both engines, each with its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from thermocline.gateway.sql.fragments import merged
from thermocline.gateway.sql.query.constants import Untyped
from thermocline.gateway.sql.query.expressions import Expressions, Reader, as_moment, as_timestamp, check_comparable
from thermocline.gateway.sql.query.query_nodes import bare
from thermocline.gateway.sql.query.sql_types import (
    BOOL,
    DATE,
    INT4,
    INT8,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    as_numeric,
    meet_collations,
    numeric,
)
from thermocline.gateway.sql.query.terms import Term, dual
from thermocline.gateway.sql.query.token_checks import EXTRACTED, TRUNCATED
from thermocline.gateway.sql.values import NotProvable

_EVEN_MICROS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
_CLOCK_FIELDS = frozenset({"hour", "minute"})


def _is(expressions: Expressions, node: exp.Expr) -> Term:
    wanted = bare(node.args["expression"])
    negate = "NOT " if node.args.get("negate") else ""
    if isinstance(wanted, exp.Null):
        inner = expressions.term(node.this)
        term = dual(BOOL, f"({{}} IS {negate}NULL)", inner)
        bound = (
            expressions.names.bound(inner.plain, "is not null" if negate else "is null", ()) if inner.plain else None
        )
        return replace(term, bound=bound)
    if isinstance(wanted, exp.Boolean):
        truth = "TRUE" if wanted.this else "FALSE"
        sign = "IS DISTINCT FROM" if negate else "IS NOT DISTINCT FROM"
        return dual(BOOL, f"({{}} {sign} {truth})", expressions.condition(node.this))
    raise NotProvable("IS of an expression is left to Postgres")


def _distinct(expressions: Expressions, node: exp.Expr) -> Term:
    left, right = expressions.pair(node.this, node.args["expression"])
    check_comparable(meet_collations(left.kind, right.kind), "=")
    check_comparable(right.kind, "=")
    sign = "IS NOT DISTINCT FROM" if isinstance(node, exp.NullSafeEQ) else "IS DISTINCT FROM"
    return dual(BOOL, f"({{}} {sign} {{}})", left, right)


def _between(expressions: Expressions, node: exp.Expr) -> Term:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    both = dual(BOOL, "({} AND {})", expressions.condition(low), expressions.condition(high))
    return dual(BOOL, "(NOT {})", both) if node.args.get("negate") else both


def _in(expressions: Expressions, node: exp.Expr) -> Term:
    if node.args.get("query") is not None:
        among = expressions.queries.among(expressions.term(node.this), node.args["query"], expressions.names)
        return dual(BOOL, "(NOT {})", among) if node.args.get("negate") else among
    left = expressions.term(node.this)
    _check_list(expressions, left.kind, node.args["expressions"])
    parts = [expressions.condition(exp.EQ(this=node.this, expression=element)) for element in node.args["expressions"]]
    found = dual(BOOL, "(" + " OR ".join(["{}"] * len(parts)) + ")", *parts)
    if node.args.get("negate"):
        return dual(BOOL, "(NOT {})", found)
    return replace(found, bound=expressions.bounded(left, "=", node.args["expressions"]) if left.plain else None)


def _check_list(expressions: Expressions, kind: Kind, elements: list[exp.Expr]) -> None:
    """Postgres seeks one type for a whole list: a string beside a typed element may be read as that element's type."""
    found = [expressions.any(element) for element in elements]
    if any(isinstance(part, Untyped) and part.text is not None for part in found) and any(
        not isinstance(part, Untyped) and part.kind.family != kind.family for part in found
    ):
        raise NotProvable("strings beside elements of other types in one list")


def _like(expressions: Expressions, node: exp.Expr) -> Term:
    left, pattern = expressions.term(node.this), expressions.any(node.args["expression"])
    text = pattern.text if isinstance(pattern, Untyped) else None
    if left.kind.family != "text" or text is None or "\\" in text:
        raise NotProvable("LIKE is followed for plain patterns only")
    term = dual(BOOL, "({} LIKE {})", left, expressions.term(node.args["expression"], expressions.setting.text))
    return dual(BOOL, "(NOT {})", term) if node.args.get("negate") else term


def _case(expressions: Expressions, node: exp.Expr) -> Term:
    subject = node.args.get("this")
    branches = []
    for branch in node.args["ifs"]:
        test = branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
        condition = expressions.condition(test)
        if not condition.uses:
            raise NotProvable("CASE of a constant, which Postgres decides when it plans")
        branches.append((condition, branch.args["true"]))
    results = [result for _, result in branches] + [node.args.get("default") or exp.Null()]
    kind = common_kind(expressions, results)
    terms = [_as_kind(expressions.term(result, kind), kind) for result in results]
    template = "CASE " + " ".join(["WHEN {} THEN {}"] * len(branches)) + " ELSE {} END"
    parts = [part for (test, _), result in zip(branches, terms, strict=False) for part in (test, result)]
    return dual(kind, f"({template})", *parts, terms[-1])


def _coalesce(expressions: Expressions, node: exp.Expr) -> Term:
    nodes = [node.this, *node.args.get("expressions", [])]
    if any(not expressions.term(part).uses for part in nodes[:-1]):
        raise NotProvable("COALESCE of a constant, which Postgres decides when it plans")
    kind = common_kind(expressions, nodes)
    terms = [_as_kind(expressions.term(part, kind), kind) for part in nodes]
    return dual(kind, "coalesce(" + ", ".join(["{}"] * len(terms)) + ")", *terms)


def _nullif(expressions: Expressions, node: exp.Expr) -> Term:
    left, right = expressions.pair(node.this, node.args["expression"])
    if left.kind.family != right.kind.family:
        raise NotProvable("NULLIF of different kinds is left to Postgres")
    check_comparable(meet_collations(left.kind, right.kind), "=")
    return dual(left.kind, "nullif({}, {})", left, right)


def common_kind(expressions: Expressions, nodes: list[exp.Expr]) -> Kind:
    """The one kind that all results have; numerics must show the same digits, integers take the widest.

    A string among them is text: as a value of another type it is read by rules of its own, and shows digits of its own.
    """
    found = [expressions.any(node) for node in nodes]
    kinds = [part.kind for part in found if not isinstance(part, Untyped)]
    if not kinds:
        return expressions.setting.text
    if kinds[0].family != "text" and any(isinstance(part, Untyped) and part.text is not None for part in found):
        raise NotProvable("a string among results of another type is left to Postgres")
    if all(kind.is_integer for kind in kinds):
        return max(kinds, key=lambda kind: ("int2", "int4", "int8").index(kind.family))
    if all(kind.family == "numeric" for kind in kinds) and len({kind.scale for kind in kinds}) == 1:
        return max(kinds, key=lambda kind: kind.precision)
    if len({kind.family for kind in kinds}) == 1 and kinds[0].family != "numeric":
        return reduce(meet_collations, kinds)
    raise NotProvable("results of different kinds are left to Postgres")


def _as_kind(term: Term, kind: Kind) -> Term:
    if term.kind.family == kind.family and term.kind.family == "numeric" and term.kind.scale != kind.scale:
        raise NotProvable("numerics with different digits are left to Postgres")
    if term.kind == kind:
        return term
    return dual(kind, f"CAST({{}} AS {kind.duckdb})", term, heap=f"CAST({{}} AS {kind.postgres})")


def _extract(expressions: Expressions, node: exp.Expr) -> Term:
    part = str(node.this.this).lower()
    inner = expressions.term(node.args["expression"])
    if part not in EXTRACTED or not inner.kind.is_moment or (inner.kind.family == "date" and part in _CLOCK_FIELDS):
        raise NotProvable(f"EXTRACT of {part} is left to Postgres")
    _check_zone(expressions, inner.kind)
    moment = as_timestamp(inner)
    # Years before the first are counted differently: such a row sends the statement to Postgres.
    duck = merged(
        (
            f"CAST(CASE WHEN {{}} < TIMESTAMP '0001-01-01' THEN error('before year 1') ELSE extract({part} FROM "
            f"{{}}) END AS DECIMAL(18, 0))"
        ),
        [moment, moment],
    )
    return replace(dual(numeric(18, 0), "{}", inner, heap=f"extract({part} FROM {{}})"), duck=duck)


def _truncate(expressions: Expressions, node: exp.Expr) -> Term:
    unit = str(node.args["unit"].this).lower()
    inner = expressions.term(node.this)
    if unit not in TRUNCATED or not inner.kind.is_moment:
        raise NotProvable(f"date_trunc to {unit} is left to Postgres")
    kind = TIMESTAMP if inner.kind.family == "timestamp" else TIMESTAMPTZ
    _check_zone(expressions, kind)
    term = dual(kind, "{}", inner, heap=f"date_trunc('{unit}', {{}})")
    make = "make_timestamptz" if kind is TIMESTAMPTZ else "make_timestamp"
    if unit in _EVEN_MICROS and inner.kind.family != "date":
        # As days have no seams in UTC, cutting off a remainder is enough.
        micros, size = merged("epoch_us({})", [inner.duck]), _EVEN_MICROS[unit]
        return replace(term, duck=merged(f"{make}({{}} - ((({{}} % {size}) + {size}) % {size}))", [micros, micros]))
    # Compared with a constant, DuckDB rewrites its date_trunc and forgets that NULL is neither equal nor different; not
    # within a call.
    return replace(term, duck=merged(f"{make}(epoch_us(date_trunc('{unit}', {{}})))", [as_timestamp(inner)]))


def _check_zone(expressions: Expressions, kind: Kind) -> None:
    if kind.family == "timestamptz" and not expressions.setting.utc:
        raise NotProvable("the session's time zone is not UTC")


def _cast(expressions: Expressions, node: exp.Expr) -> Term:
    target = node.args["to"]
    found = expressions.any(node.this)
    kind = _CAST_KINDS.get(target.this)
    if kind is None or target.expressions:
        raise NotProvable(f"a cast to {target.sql(dialect='postgres')} is left to Postgres")
    if isinstance(found, Untyped):
        if found.text is not None and kind.family not in _CAST_LITERALS:
            raise NotProvable(f"a string as {kind.family} is left to Postgres")
        if kind.family == "numeric":
            raise NotProvable("a numeric NULL")
        return expressions.term(node.this, expressions.setting.text if kind.family == "text" else kind)
    source = found.kind
    if source.family == kind.family:
        # A cast without digits of its own leaves a numeric's digits as they are.
        return found.typed(replace(source, oid=25)) if kind.family == "text" else found
    if source.is_integer and kind.is_integer:
        return _as_kind(found, kind)
    if source.is_integer and kind.family == "numeric":
        return dual(as_numeric(source), f"CAST({{}} AS {as_numeric(source).duckdb})", found, heap="CAST({} AS numeric)")
    if source.is_moment and kind.is_moment:
        if "timestamptz" in (source.family, kind.family):
            _check_zone(expressions, TIMESTAMPTZ)
        if kind.family == "date":
            return replace(
                dual(DATE, "{}", found, heap="CAST({} AS date)"), duck=merged("CAST({} AS DATE)", [as_timestamp(found)])
            )
        return as_moment(found, kind)
    if source.is_integer and kind.family == "text":
        return dual(expressions.setting.text, "CAST({} AS VARCHAR)", found, heap="CAST({} AS text)")
    raise NotProvable(f"a cast from {source.family} to {kind.family} is left to Postgres")


_CAST_KINDS: Mapping[exp.DType, Kind] = {
    exp.DType.INT: INT4,
    exp.DType.BIGINT: INT8,
    exp.DType.DECIMAL: numeric(1, 0),
    exp.DType.TEXT: TEXT,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMPTZ,
    exp.DType.BOOLEAN: BOOL,
}
_CAST_LITERALS = frozenset({"int4", "int8", "text", "date", "timestamp", "timestamptz", "bool"})


def _length(expressions: Expressions, node: exp.Expr) -> Term:
    return dual(INT4, "CAST(length({}) AS INTEGER)", _text(expressions, node.this), heap="length({})")


def _substring(expressions: Expressions, node: exp.Expr) -> Term:
    start, length = node.args.get("start"), node.args.get("length")
    for bound in (start, length):
        if bound is not None and not _is_count(bound):
            raise NotProvable("SUBSTRING is followed for constant places only")
    if start is None or int(str(start.this)) < 1:
        raise NotProvable("SUBSTRING before the beginning is left to Postgres")
    inner = _text(expressions, node.this)
    tail = f", {int(str(length.this))}" if length is not None else ""
    return dual(inner.kind, f"substring({{}}, {int(str(start.this))}{tail})", inner).typed(replace(inner.kind, oid=25))


def _is_count(node: exp.Expr) -> bool:
    """A whole number as such: a string in its place may mean another function, as in `substring(x from 'pattern')`."""
    text = str(node.this)
    return isinstance(node, exp.Literal) and not node.is_string and text.isascii() and text.isdigit() and len(text) < 9


def _left(expressions: Expressions, node: exp.Expr) -> Term:
    count = node.args["expression"]
    if not _is_count(count):
        raise NotProvable("LEFT is followed for constant lengths only")
    inner = _text(expressions, node.this)
    name = "left" if isinstance(node, exp.Left) else "right"
    return dual(inner.kind, f"{name}({{}}, {int(str(count.this))})", inner).typed(replace(inner.kind, oid=25))


def _concatenate(expressions: Expressions, node: exp.Expr) -> Term:
    text = expressions.setting.text
    left, right = expressions.term(node.this, text), expressions.term(node.args["expression"], text)
    if left.kind.family != "text" or right.kind.family != "text":
        raise NotProvable("|| of other things than text is left to Postgres")
    return dual(replace(meet_collations(left.kind, right.kind), oid=25), "({} || {})", left, right)


def _text(expressions: Expressions, node: exp.Expr) -> Term:
    term = expressions.term(node, expressions.setting.text)
    if term.kind.family != "text":
        raise NotProvable("a function of text, given something else")
    return term


def _absolute(expressions: Expressions, node: exp.Expr) -> Term:
    inner = expressions.term(node.this)
    if not inner.kind.is_number:
        raise NotProvable("ABS of something that is no exact number")
    return dual(inner.kind, "abs({})", inner)


def _round(expressions: Expressions, node: exp.Expr) -> Term:
    inner, decimals = expressions.term(node.this), node.args.get("decimals")
    digits = (
        0
        if decimals is None
        else int(str(decimals.this))
        if isinstance(decimals, exp.Literal) and not decimals.is_string
        else -1
    )
    if inner.kind.family != "numeric" or not 0 <= digits <= inner.kind.scale:
        raise NotProvable("ROUND is followed for numerics and fewer digits only")
    kind = numeric(inner.kind.precision - inner.kind.scale + digits + 1, digits)
    return dual(kind, f"CAST(round({{}}, {digits}) AS {kind.duckdb})", inner, heap=f"round({{}}, {digits})")


FUNCTIONS: Mapping[type[exp.Expr], Reader] = {
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
