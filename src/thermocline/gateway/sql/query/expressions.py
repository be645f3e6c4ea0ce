"""Expressions of a statement as terms: operators, comparisons, conditions. Functions are in `functions.py`.

Whatever is not known to mean the same in both engines raises `NotProvable`, and Postgres answers the statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query.constants import (
    Given,
    Untyped,
    constant_of,
    decimal,
    given,
    null_of,
    number,
    value_of,
)
from thermocline.gateway.sql.query.parsing import Span, span_of
from thermocline.gateway.sql.query.query_nodes import bare
from thermocline.gateway.sql.query.sql_types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    as_numeric,
    check_meet,
    meet_collations,
    numeric,
)
from thermocline.gateway.sql.query.terms import Term, dual
from thermocline.gateway.sql.table_scan import bound_value
from thermocline.gateway.sql.values import NotProvable
from thermocline.lake.read.scan import Bound, Op

_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BOUND_OPS: Mapping[str, Op] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
COMPUTED = (exp.Cast, exp.Interval, exp.CurrentDate, exp.CurrentTimestamp, exp.Add, exp.Sub, exp.TimestampTrunc)
"""Constant expressions of these kinds are computed by Postgres, in the client's own session."""

Reader = Callable[["Expressions", exp.Expr], Term]

_WIDTHS = {"int2": 2, "int4": 4, "int8": 8}


class Names(Protocol):
    """What names mean where an expression stands."""

    def column(self, node: exp.Column) -> Term: ...
    def bound(self, plain: tuple[int, str], op: Op, values: tuple[object, ...]) -> tuple[int, Bound] | None: ...
    def owns(self, uses: frozenset[int]) -> bool:
        """Whether all that is used stands in the FROM of this very SELECT."""
        ...


class Queries(Protocol):
    """Queries within an expression."""

    def scalar(self, node: exp.Expr, names: Names) -> Term: ...
    def exists(self, node: exp.Expr, names: Names) -> Term: ...
    def among(self, left: Term, node: exp.Expr, names: Names) -> Term: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a statement runs in: its text, parameter values, constants that Postgres computed, whether the session is in
    UTC.

    `literals_in_utc`: it was when the literals were read. `text_is_c`: the database's own collation orders text by its
    bytes.
    """

    sql: str = ""
    parameters: Sequence[Given] = ()
    computed: Mapping[Span, Given] = field(default_factory=dict)
    utc: bool = True
    literals_in_utc: bool = True
    text_is_c: bool = False

    @property
    def text(self) -> Kind:
        """The kind of text without a column: it has the database's own collation."""
        return replace(TEXT, is_c=self.text_is_c)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What all expressions of one statement share."""

    setting: Setting
    queries: Queries
    functions: Mapping[type[exp.Expr], Reader]


class Expressions:
    """Reads expressions in one scope. `replaced` are nodes that stand for terms already known: groups and
    aggregates."""

    def __init__(self, names: Names, reading: Reading, replaced: Sequence[tuple[exp.Expr, Term]] = ()) -> None:
        self.names = names
        self.setting = reading.setting
        self.queries = reading.queries
        self._functions = reading.functions
        self._replaced = replaced

    def term(self, node: exp.Expr, wanted: Kind | None = None) -> Term:
        """The expression; a bare literal takes the wanted kind."""
        found = self.any(node)
        if not isinstance(found, Untyped):
            return found
        kind = wanted or self.setting.text
        return null_of(kind) if found.text is None else constant_of(kind, found.text, utc=self.setting.literals_in_utc)

    def any(self, node: exp.Expr) -> Term | Untyped:
        node = bare(node)
        for known, term in self._replaced:
            if known == node:
                return term
        if (computed := self.computed(node)) is not None:
            return given(computed, utc=self.setting.utc, text_is_c=self.setting.text_is_c)
        match node:
            case exp.Null():
                return Untyped(None)
            case exp.Literal():
                return Untyped(str(node.this)) if node.is_string else number(str(node.this))
            case exp.Neg():
                return self._negative(node)
            case exp.Parameter():
                return self._parameter(node)
        return self._compound(node)

    def computed(self, node: exp.Expr) -> Given | None:
        """What Postgres computed for a constant expression."""
        if not self.setting.computed or not isinstance(node, COMPUTED):
            return None
        span = span_of(node)
        return self.setting.computed.get(span) if span is not None else None

    def condition(self, node: exp.Expr) -> Term:
        """An expression that must be boolean."""
        term = self.term(node, BOOL)
        if term.kind != BOOL:
            raise NotProvable("a condition that is not boolean")
        return term

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Term, Term]:
        """Two operands; a literal takes the other's kind, numbers meet in the wider kind, moments in UTC meet as
        timestamps."""
        first, second = self.any(left), self.any(right)
        if isinstance(first, Untyped) and isinstance(second, Untyped):
            raise NotProvable("two literals without a type")
        if isinstance(first, Untyped):
            return self.term(left, second.kind), self.term(right)  # type: ignore[union-attr]
        if isinstance(second, Untyped):
            return first, self.term(right, first.kind)
        return self._met(first, second)

    def _met(self, first: Term, second: Term) -> tuple[Term, Term]:
        one, two = first.kind, second.kind
        if one.is_number and two.is_number:
            check_meet(one, two)
            return first, second
        if one.family == two.family:
            return first, second
        if (one.is_float or one.is_number) and (two.is_float or two.is_number):
            return as_double(first), as_double(second)
        if one.is_moment and two.is_moment and (self.setting.utc or "timestamptz" not in (one.family, two.family)):
            kind = TIMESTAMPTZ if "timestamptz" in (one.family, two.family) else TIMESTAMP
            return as_moment(first, kind), as_moment(second, kind)
        raise NotProvable(f"{one.family} beside {two.family}")

    def _negative(self, node: exp.Neg) -> Term:
        inner = bare(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number("-" + str(inner.this))
        term = self.term(inner)
        if not term.kind.is_number:
            raise NotProvable("minus of something that is no number")
        return dual(term.kind, "(- {})", term)

    def _parameter(self, node: exp.Parameter) -> Term:
        at = int(str(node.this.this)) - 1
        if not 0 <= at < len(self.setting.parameters):
            raise NotProvable("a parameter without a value")
        return given(self.setting.parameters[at], utc=self.setting.utc, text_is_c=self.setting.text_is_c)

    def _compound(self, node: exp.Expr) -> Term:
        match node:
            case exp.Column():
                return self.names.column(node)
            case exp.Boolean():
                return Term(
                    kind=BOOL,
                    duck=Fragment("TRUE" if node.this else "FALSE"),
                    heap=sql.SQL("TRUE" if node.this else "FALSE"),
                )
            case exp.And() | exp.Or():
                template = "({} AND {})" if isinstance(node, exp.And) else "({} OR {})"
                return dual(BOOL, template, self.condition(node.this), self.condition(node.expression))
            case exp.Not():
                return dual(BOOL, "(NOT {})", self.condition(node.this))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._arithmetic(node)
            case exp.Exists():
                return self.queries.exists(node.this, self.names)
            case exp.Subquery() | exp.Select():
                return self.queries.scalar(node, self.names)
        if type(node) in _COMPARISONS:
            return self._comparison(node.this, _COMPARISONS[type(node)], node.expression)
        function = self._functions.get(type(node))
        if function is None:
            raise NotProvable(f"{type(node).__name__.upper()} is left to Postgres")
        return function(self, node)

    def _comparison(self, left: exp.Expr, op: str, right: exp.Expr) -> Term:
        first, second = self.any(left), self.any(right)
        if any(isinstance(side, Untyped) and side.text is None for side in (first, second)):
            return null_of(BOOL)
        if (
            not isinstance(first, Untyped)
            and not isinstance(second, Untyped)
            and (first.kind.is_float or second.kind.is_float)
        ):
            return self._compared_floats(left, first, op, right, second)
        one, two = self.pair(left, right)
        if one.kind.is_float or two.kind.is_float:
            return compare_floats(one, op, two)
        check_comparable(meet_collations(one.kind, two.kind), op)
        check_comparable(meet_collations(two.kind, one.kind), op)
        compared = dual(BOOL, f"({{}} {op} {{}})", one, two)
        return replace(compared, bound=self._bound(left, one, op, right, two))

    def _compared_floats(self, left: exp.Expr, one: Term, op: str, right: exp.Expr, two: Term) -> Term:
        """A number written with digits is a numeric that Postgres makes the nearest float of; so does Python, and
        DuckDB not always."""
        if one.plain is None:
            left, one, op, right, two = right, two, _MIRRORED[op], left, one
        if one.plain is None or two.uses or one.kind.family == "numeric":
            raise NotProvable("floats are compared with constants only")
        if not two.kind.is_float:
            text = self._text_of(right)
            if text is None or not two.kind.is_number:
                raise NotProvable("floats are compared with plain constants only")
            two = constant_of(FLOAT8, text, utc=self.setting.utc)
        return compare_floats(one, op, two)

    def _bound(self, left: exp.Expr, one: Term, op: str, right: exp.Expr, two: Term) -> tuple[int, Bound] | None:
        if op not in _BOUND_OPS:
            return None
        if one.plain is not None:
            return self.bounded(one, _BOUND_OPS[op], (right,))
        return self.bounded(two, _BOUND_OPS[_MIRRORED[op]], (left,)) if two.plain is not None else None

    def bounded(self, column: Term, op: Op, constants: Sequence[exp.Expr]) -> tuple[int, Bound] | None:
        """What a comparison of a column with constants tells about files."""
        values: list[object] = []
        for node in constants:
            text = self._text_of(node)
            if text is None or column.plain is None:
                return None
            try:
                value = bound_value(value_of(column.kind, text, utc=self.setting.utc))
            except NotProvable:
                return None
            if value is None:
                return None
            values.append(value)
        return self.names.bound(column.plain, op, tuple(values)) if column.plain else None

    def _text_of(self, node: exp.Expr) -> str | None:
        node = bare(node)
        if (computed := self.computed(node)) is not None:
            return computed.text
        match node:
            case exp.Literal():
                return str(node.this)
            case exp.Neg() if isinstance(bare(node.this), exp.Literal):
                return "-" + str(bare(node.this).this)
            case exp.Parameter():
                at = int(str(node.this.this)) - 1
                return self.setting.parameters[at].text if 0 <= at < len(self.setting.parameters) else None
        return None

    def _arithmetic(self, node: exp.Expr) -> Term:
        first, second = self.any(node.this), self.any(node.expression)
        if isinstance(first, Untyped) or isinstance(second, Untyped):
            raise NotProvable("arithmetic with an untyped literal")
        one, two = first.kind, second.kind
        if one.is_integer and two.is_integer:
            return _integers(node, first, second)
        if one.is_number and two.is_number:
            return _numerics(node, first, second)
        if one.family == "date" and two.family in ("int2", "int4") and isinstance(node, exp.Add | exp.Sub):
            return dual(DATE, "({} + {})" if isinstance(node, exp.Add) else "({} - {})", first, second)
        if one.family == two.family == "date" and isinstance(node, exp.Sub):
            return dual(INT4, "CAST(({} - {}) AS INTEGER)", first, second, heap="({} - {})")
        raise NotProvable(f"{type(node).__name__.upper()} of {one.family} and {two.family} is left to Postgres")


def _integers(node: exp.Expr, first: Term, second: Term) -> Term:
    kind = first.kind if _WIDTHS[first.kind.family] >= _WIDTHS[second.kind.family] else second.kind
    match node:
        case exp.Add():
            return dual(kind, "({} + {})", first, second)
        case exp.Sub():
            return dual(kind, "({} - {})", first, second)
        case exp.Mul():
            return dual(kind, "({} * {})", first, second)
    divisor = bare(node.args["expression"])
    if not (isinstance(divisor, exp.Literal) and str(divisor.this).strip("0")):
        raise NotProvable("division by something that may be zero is left to Postgres")
    if isinstance(node, exp.Div):
        return dual(kind, "({} // {})", first, second, heap="({} / {})")
    return dual(kind, "({} %% {})".replace("%%", "%"), first, second)


def _numerics(node: exp.Expr, first: Term, second: Term) -> Term:
    """DuckDB gives the same scale and a precision of its own; where that overflows, Postgres answers."""
    first, second = _as_written(node.this, first), _as_written(node.args["expression"], second)
    one, two = as_numeric(first.kind), as_numeric(second.kind)
    first = (
        first
        if first.kind.family == "numeric"
        else dual(one, f"CAST({{}} AS {one.duckdb})", first, heap="CAST({} AS numeric)")
    )
    second = (
        second
        if second.kind.family == "numeric"
        else dual(two, f"CAST({{}} AS {two.duckdb})", second, heap="CAST({} AS numeric)")
    )
    scale = max(one.scale, two.scale)
    whole = max(one.precision - one.scale, two.precision - two.scale)
    match node:
        case exp.Add():
            return dual(numeric(whole + scale + 1, scale), "({} + {})", first, second)
        case exp.Sub():
            return dual(numeric(whole + scale + 1, scale), "({} - {})", first, second)
        case exp.Mul() if one.scale + two.scale <= 20:
            return dual(numeric(one.precision + two.precision, one.scale + two.scale), "({} * {})", first, second)
    raise NotProvable("division of numerics is left to Postgres")


def _as_written(node: exp.Expr, term: Term) -> Term:
    """A whole number with no more digits than it is written with: narrow decimals stay fast."""
    node = bare(node)
    return decimal(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else term


def as_double(term: Term) -> Term:
    return (
        term
        if term.kind.family == "float8"
        else dual(FLOAT8, "CAST({} AS DOUBLE)", term, heap="CAST({} AS double precision)")
    )


def as_moment(term: Term, kind: Kind) -> Term:
    """A date or timestamp as another kind of moment, in UTC."""
    if term.kind.family == kind.family:
        return term
    if kind.family == "timestamptz":
        return dual(kind, "make_timestamptz(epoch_us({}))", term, heap="CAST({} AS timestamptz)")
    return replace(dual(kind, "{}", term, heap="CAST({} AS timestamp)"), duck=as_timestamp(term))


def as_timestamp(term: Term) -> Fragment:
    """A moment as DuckDB's timestamp in UTC; its own cast goes through a calendar and takes ten times as long."""
    if term.kind.family == "timestamptz":
        return merged("make_timestamp(epoch_us({}))", [term.duck])
    return merged("CAST({} AS TIMESTAMP)", [term.duck]) if term.kind.family == "date" else term.duck


def compare_floats(one: Term, op: str, two: Term) -> Term:
    """A column beside a float constant: NaN, the greatest of all, is spelt out, because statistics leave it out."""
    if one.plain is None:
        one, two, op = two, one, _MIRRORED[op]
    if one.plain is None or two.uses or not _is_finite(two):
        raise NotProvable("floats are compared with finite constants only")
    plain = f"CAST({{}} AS DOUBLE) {op} CAST({{}} AS DOUBLE)"
    odd = "isnan(CAST({} AS DOUBLE))"
    duck = f"({odd} OR {plain})" if op in ("<>", ">", ">=") else f"(NOT {odd} AND {plain})"
    heap = f"(CAST({{}} AS double precision) {op} CAST({{}} AS double precision))"
    both = dual(BOOL, f"({{}} {op} {{}})", one, two, heap=heap)
    return replace(both, duck=merged(duck, [one.duck, one.duck, two.duck]))


def _is_finite(constant: Term) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in constant.duck.parameters)


def check_comparable(kind: Kind, op: str) -> None:
    if not (kind.has_equality if op in ("=", "<>") else kind.has_order):
        raise NotProvable(f"comparison of {kind.family} depends on its collation or has other rules in Postgres")


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    node = bare(node)
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    if isinstance(node, exp.Between):
        low, high = (
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        )
        return [low, high]
    return [node]
