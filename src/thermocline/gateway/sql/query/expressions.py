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

from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query.constants import (
    TypedValue,
    UntypedLiteral,
    decimal,
    literal_constant,
    null_constant,
    number,
    parse_literal,
    typed_constant,
)
from thermocline.gateway.sql.query.parsing import Span, find_span
from thermocline.gateway.sql.query.sql_types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    check_common_decimal,
    integer_to_numeric,
    numeric,
    resolve_collation,
)
from thermocline.gateway.sql.query.terms import Term, compose_term
from thermocline.gateway.sql.syntax_tree import strip_parentheses
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
COMPUTED_NODES = (exp.Cast, exp.Interval, exp.CurrentDate, exp.CurrentTimestamp, exp.Add, exp.Sub, exp.TimestampTrunc)
"""Constant expressions of these kinds are computed by Postgres, in the client's own session."""

CompileFunction = Callable[["ExpressionCompiler", exp.Expr], Term]

_WIDTHS = {"int2": 2, "int4": 4, "int8": 8}


class NameResolver(Protocol):
    """What names mean where an expression stands."""

    def column(self, node: exp.Column) -> Term: ...
    def bound(self, column: tuple[int, str], op: Op, values: tuple[object, ...]) -> tuple[int, Bound] | None: ...
    def is_local(self, relation_numbers: frozenset[int]) -> bool:
        """Whether all that is used stands in the FROM of this very SELECT."""
        ...


class SubqueryCompiler(Protocol):
    """Queries within an expression."""

    def scalar(self, node: exp.Expr, names: NameResolver) -> Term: ...
    def exists(self, node: exp.Expr, names: NameResolver) -> Term: ...
    def among(self, left: Term, node: exp.Expr, names: NameResolver) -> Term: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """What a statement runs in: its text, parameter values, constants that Postgres computed, whether the session is in
    UTC.

    `literals_in_utc`: it was when the literals were read. `text_is_c`: the database's own collation orders text by its
    bytes.
    """

    sql: str = ""
    parameters: Sequence[TypedValue] = ()
    computed: Mapping[Span, TypedValue] = field(default_factory=dict)
    utc: bool = True
    literals_in_utc: bool = True
    text_is_c: bool = False

    @property
    def text(self) -> SqlType:
        """The kind of text without a column: it has the database's own collation."""
        return replace(TEXT, is_c=self.text_is_c)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """What all expressions of one statement share."""

    setting: QuerySettings
    queries: SubqueryCompiler
    functions: Mapping[type[exp.Expr], CompileFunction]


class ExpressionCompiler:
    """Reads expressions in one scope. `replaced` are nodes that stand for terms already known: groups and
    aggregates."""

    def __init__(
        self, names: NameResolver, reading: CompileContext, replaced: Sequence[tuple[exp.Expr, Term]] = ()
    ) -> None:
        self.names = names
        self.setting = reading.setting
        self.queries = reading.queries
        self._functions = reading.functions
        self._replaced = replaced

    def term(self, node: exp.Expr, wanted: SqlType | None = None) -> Term:
        """The expression; a bare literal takes the wanted kind."""
        found = self.any(node)
        if not isinstance(found, UntypedLiteral):
            return found
        sql_type = wanted or self.setting.text
        return (
            null_constant(sql_type)
            if found.text is None
            else literal_constant(sql_type, found.text, utc=self.setting.literals_in_utc)
        )

    def any(self, node: exp.Expr) -> Term | UntypedLiteral:
        node = strip_parentheses(node)
        for known, term in self._replaced:
            if known == node:
                return term
        if (computed := self.computed(node)) is not None:
            return typed_constant(computed, utc=self.setting.utc, text_is_c=self.setting.text_is_c)
        match node:
            case exp.Null():
                return UntypedLiteral(None)
            case exp.Literal():
                return UntypedLiteral(str(node.this)) if node.is_string else number(str(node.this))
            case exp.Neg():
                return self._negative(node)
            case exp.Parameter():
                return self._parameter(node)
        return self._compound(node)

    def computed(self, node: exp.Expr) -> TypedValue | None:
        """What Postgres computed for a constant expression."""
        if not self.setting.computed or not isinstance(node, COMPUTED_NODES):
            return None
        span = find_span(node)
        return self.setting.computed.get(span) if span is not None else None

    def condition(self, node: exp.Expr) -> Term:
        """An expression that must be boolean."""
        term = self.term(node, BOOL)
        if term.sql_type != BOOL:
            raise NotProvable("a condition that is not boolean")
        return term

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Term, Term]:
        """Two operands; a literal takes the other's kind, numbers meet in the wider kind, moments in UTC meet as
        timestamps."""
        first, second = self.any(left), self.any(right)
        if isinstance(first, UntypedLiteral) and isinstance(second, UntypedLiteral):
            raise NotProvable("two literals without a type")
        if isinstance(first, UntypedLiteral):
            return self.term(left, second.sql_type), self.term(right)  # type: ignore[union-attr]
        if isinstance(second, UntypedLiteral):
            return first, self.term(right, first.sql_type)
        return self._met(first, second)

    def _met(self, first: Term, second: Term) -> tuple[Term, Term]:
        one, two = first.sql_type, second.sql_type
        if one.is_number and two.is_number:
            check_common_decimal(one, two)
            return first, second
        if one.family == two.family:
            return first, second
        if (one.is_float or one.is_number) and (two.is_float or two.is_number):
            return cast_double(first), cast_double(second)
        if one.is_datetime and two.is_datetime and (self.setting.utc or "timestamptz" not in (one.family, two.family)):
            sql_type = TIMESTAMPTZ if "timestamptz" in (one.family, two.family) else TIMESTAMP
            return cast_datetime(first, sql_type), cast_datetime(second, sql_type)
        raise NotProvable(f"{one.family} beside {two.family}")

    def _negative(self, node: exp.Neg) -> Term:
        inner = strip_parentheses(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number("-" + str(inner.this))
        term = self.term(inner)
        if not term.sql_type.is_number:
            raise NotProvable("minus of something that is no number")
        return compose_term(term.sql_type, "(- {})", term)

    def _parameter(self, node: exp.Parameter) -> Term:
        at = int(str(node.this.this)) - 1
        if not 0 <= at < len(self.setting.parameters):
            raise NotProvable("a parameter without a value")
        return typed_constant(self.setting.parameters[at], utc=self.setting.utc, text_is_c=self.setting.text_is_c)

    def _compound(self, node: exp.Expr) -> Term:
        match node:
            case exp.Column():
                return self.names.column(node)
            case exp.Boolean():
                return Term(
                    sql_type=BOOL,
                    duckdb=Fragment("TRUE" if node.this else "FALSE"),
                    heap=sql.SQL("TRUE" if node.this else "FALSE"),
                )
            case exp.And() | exp.Or():
                template = "({} AND {})" if isinstance(node, exp.And) else "({} OR {})"
                return compose_term(BOOL, template, self.condition(node.this), self.condition(node.expression))
            case exp.Not():
                return compose_term(BOOL, "(NOT {})", self.condition(node.this))
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
        if any(isinstance(side, UntypedLiteral) and side.text is None for side in (first, second)):
            return null_constant(BOOL)
        if (
            not isinstance(first, UntypedLiteral)
            and not isinstance(second, UntypedLiteral)
            and (first.sql_type.is_float or second.sql_type.is_float)
        ):
            return self._compared_floats(left, first, op, right, second)
        one, two = self.pair(left, right)
        if one.sql_type.is_float or two.sql_type.is_float:
            return compare_floats(one, op, two)
        check_comparable(resolve_collation(one.sql_type, two.sql_type), op)
        check_comparable(resolve_collation(two.sql_type, one.sql_type), op)
        compared = compose_term(BOOL, f"({{}} {op} {{}})", one, two)
        return replace(compared, bound=self._bound(left, one, op, right, two))

    def _compared_floats(self, left: exp.Expr, one: Term, op: str, right: exp.Expr, two: Term) -> Term:
        """A number written with digits is a numeric that Postgres makes the nearest float of; so does Python, and
        DuckDB not always."""
        if one.column is None:
            left, one, op, right, two = right, two, _MIRRORED[op], left, one
        if one.column is None or two.relation_numbers or one.sql_type.family == "numeric":
            raise NotProvable("floats are compared with constants only")
        if not two.sql_type.is_float:
            text = self._text_of(right)
            if text is None or not two.sql_type.is_number:
                raise NotProvable("floats are compared with plain constants only")
            two = literal_constant(FLOAT8, text, utc=self.setting.utc)
        return compare_floats(one, op, two)

    def _bound(self, left: exp.Expr, one: Term, op: str, right: exp.Expr, two: Term) -> tuple[int, Bound] | None:
        if op not in _BOUND_OPS:
            return None
        if one.column is not None:
            return self.bounded(one, _BOUND_OPS[op], (right,))
        return self.bounded(two, _BOUND_OPS[_MIRRORED[op]], (left,)) if two.column is not None else None

    def bounded(self, column: Term, op: Op, constants: Sequence[exp.Expr]) -> tuple[int, Bound] | None:
        """What a comparison of a column with constants tells about files."""
        values: list[object] = []
        for node in constants:
            text = self._text_of(node)
            if text is None or column.column is None:
                return None
            try:
                value = bound_value(parse_literal(column.sql_type, text, utc=self.setting.utc))
            except NotProvable:
                return None
            if value is None:
                return None
            values.append(value)
        return self.names.bound(column.column, op, tuple(values)) if column.column else None

    def _text_of(self, node: exp.Expr) -> str | None:
        node = strip_parentheses(node)
        if (computed := self.computed(node)) is not None:
            return computed.text
        match node:
            case exp.Literal():
                return str(node.this)
            case exp.Neg() if isinstance(strip_parentheses(node.this), exp.Literal):
                return "-" + str(strip_parentheses(node.this).this)
            case exp.Parameter():
                at = int(str(node.this.this)) - 1
                return self.setting.parameters[at].text if 0 <= at < len(self.setting.parameters) else None
        return None

    def _arithmetic(self, node: exp.Expr) -> Term:
        first, second = self.any(node.this), self.any(node.expression)
        if isinstance(first, UntypedLiteral) or isinstance(second, UntypedLiteral):
            raise NotProvable("arithmetic with an untyped literal")
        one, two = first.sql_type, second.sql_type
        if one.is_integer and two.is_integer:
            return _integers(node, first, second)
        if one.is_number and two.is_number:
            return _numerics(node, first, second)
        if one.family == "date" and two.family in ("int2", "int4") and isinstance(node, exp.Add | exp.Sub):
            return compose_term(DATE, "({} + {})" if isinstance(node, exp.Add) else "({} - {})", first, second)
        if one.family == two.family == "date" and isinstance(node, exp.Sub):
            return compose_term(INT4, "CAST(({} - {}) AS INTEGER)", first, second, heap="({} - {})")
        raise NotProvable(f"{type(node).__name__.upper()} of {one.family} and {two.family} is left to Postgres")


def _integers(node: exp.Expr, first: Term, second: Term) -> Term:
    sql_type = first.sql_type if _WIDTHS[first.sql_type.family] >= _WIDTHS[second.sql_type.family] else second.sql_type
    match node:
        case exp.Add():
            return compose_term(sql_type, "({} + {})", first, second)
        case exp.Sub():
            return compose_term(sql_type, "({} - {})", first, second)
        case exp.Mul():
            return compose_term(sql_type, "({} * {})", first, second)
    divisor = strip_parentheses(node.args["expression"])
    if not (isinstance(divisor, exp.Literal) and str(divisor.this).strip("0")):
        raise NotProvable("division by something that may be zero is left to Postgres")
    if isinstance(node, exp.Div):
        return compose_term(sql_type, "({} // {})", first, second, heap="({} / {})")
    return compose_term(sql_type, "({} %% {})".replace("%%", "%"), first, second)


def _numerics(node: exp.Expr, first: Term, second: Term) -> Term:
    """DuckDB gives the same scale and a precision of its own; where that overflows, Postgres answers."""
    first, second = _as_written(node.this, first), _as_written(node.args["expression"], second)
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


def _as_written(node: exp.Expr, term: Term) -> Term:
    """A whole number with no more digits than it is written with: narrow decimals stay fast."""
    node = strip_parentheses(node)
    return decimal(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else term


def cast_double(term: Term) -> Term:
    return (
        term
        if term.sql_type.family == "float8"
        else compose_term(FLOAT8, "CAST({} AS DOUBLE)", term, heap="CAST({} AS double precision)")
    )


def cast_datetime(term: Term, sql_type: SqlType) -> Term:
    """A date or timestamp as another kind of moment, in UTC."""
    if term.sql_type.family == sql_type.family:
        return term
    if sql_type.family == "timestamptz":
        return compose_term(sql_type, "make_timestamptz(epoch_us({}))", term, heap="CAST({} AS timestamptz)")
    return replace(compose_term(sql_type, "{}", term, heap="CAST({} AS timestamp)"), duckdb=cast_timestamp(term))


def cast_timestamp(term: Term) -> Fragment:
    """A moment as DuckDB's timestamp in UTC; its own cast goes through a calendar and takes ten times as long."""
    if term.sql_type.family == "timestamptz":
        return fill_template("make_timestamp(epoch_us({}))", [term.duckdb])
    return fill_template("CAST({} AS TIMESTAMP)", [term.duckdb]) if term.sql_type.family == "date" else term.duckdb


def compare_floats(one: Term, op: str, two: Term) -> Term:
    """A column beside a float constant: NaN, the greatest of all, is spelt out, because statistics leave it out."""
    if one.column is None:
        one, two, op = two, one, _MIRRORED[op]
    if one.column is None or two.relation_numbers or not _is_finite(two):
        raise NotProvable("floats are compared with finite constants only")
    column = f"CAST({{}} AS DOUBLE) {op} CAST({{}} AS DOUBLE)"
    odd = "isnan(CAST({} AS DOUBLE))"
    duckdb = f"({odd} OR {column})" if op in ("<>", ">", ">=") else f"(NOT {odd} AND {column})"
    heap = f"(CAST({{}} AS double precision) {op} CAST({{}} AS double precision))"
    both = compose_term(BOOL, f"({{}} {op} {{}})", one, two, heap=heap)
    return replace(both, duckdb=fill_template(duckdb, [one.duckdb, one.duckdb, two.duckdb]))


def _is_finite(constant: Term) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in constant.duckdb.parameters)


def check_comparable(sql_type: SqlType, op: str) -> None:
    if not (sql_type.has_equality if op in ("=", "<>") else sql_type.has_order):
        raise NotProvable(f"comparison of {sql_type.family} depends on its collation or has other rules in Postgres")


def split_conditions(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    node = strip_parentheses(node)
    if isinstance(node, exp.And):
        return split_conditions(node.this) + split_conditions(node.expression)
    if isinstance(node, exp.Between):
        low, high = (
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        )
        return [low, high]
    return [node]
