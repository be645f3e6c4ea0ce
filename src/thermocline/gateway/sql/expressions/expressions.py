"""Compile the expressions of a statement to terms: operators, comparisons, conditions. Functions are in `functions.py`.

An expression that is not known to mean the same in both engines raises `NotProvable`, and Postgres runs the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.expressions.arithmetic import compile_integer_arithmetic, compile_numeric_arithmetic
from thermocline.gateway.sql.expressions.casts import canonical_type, cast_datetime, cast_double
from thermocline.gateway.sql.expressions.comparisons import MIRRORED, check_comparable, compare_floats
from thermocline.gateway.sql.expressions.constants import (
    TypedValue,
    UntypedLiteral,
    decimal,
    literal_constant,
    null_constant,
    number,
    parse_literal,
    typed_constant,
)
from thermocline.gateway.sql.expressions.query_settings import NameResolver, QuerySettings, SubqueryCompiler
from thermocline.gateway.sql.expressions.sql_types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    check_common_decimal,
    resolve_collation,
)
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.sql.syntax.parsing import find_span
from thermocline.gateway.sql.syntax.syntax_tree import is_typed_literal, literal_text, strip_parentheses
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
_BOUND_OPS: Mapping[str, Op] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
COMPUTED_NODES = (exp.Cast, exp.CurrentDate, exp.CurrentTimestamp, exp.Add, exp.Sub, exp.TimestampTrunc)
"""Constant expressions of these kinds are computed by Postgres, in the client's own session."""

CompileFunction = Callable[["ExpressionCompiler", exp.Expr], Term]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """What the compilers of all expressions of one statement share."""

    setting: QuerySettings
    queries: SubqueryCompiler
    functions: Mapping[type[exp.Expr], CompileFunction]


class ExpressionCompiler:
    """Compiles expressions in one scope. `grouped_terms` are the terms of nodes that GROUP BY has computed."""

    def __init__(
        self, names: NameResolver, context: CompileContext, grouped_terms: Sequence[tuple[exp.Expr, Term]] = ()
    ) -> None:
        self.names = names
        self.setting = context.setting
        self.queries = context.queries
        self._functions = context.functions
        self._grouped_terms = grouped_terms

    def term(self, node: exp.Expr, wanted: SqlType | None = None) -> Term:
        """The expression; an untyped literal takes the type `wanted`."""
        found = self.term_or_literal(node)
        if not isinstance(found, UntypedLiteral):
            return found
        sql_type = wanted or self.setting.text
        return (
            null_constant(sql_type)
            if found.text is None
            else literal_constant(sql_type, found.text, utc=self.setting.utc)
        )

    def term_or_literal(self, node: exp.Expr) -> Term | UntypedLiteral:
        node = strip_parentheses(node)
        for grouped_node, term in self._grouped_terms:
            if grouped_node == node:
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
            case exp.Cast() if is_typed_literal(node) and (constant := self._typed_literal(node)) is not None:
                return constant
        return self._compound(node)

    def _typed_literal(self, node: exp.Cast) -> Term | UntypedLiteral | None:
        """A constant with its type, as Postgres prints it: moments are in UTC. `None` for a cast of a number that is
        computed. The digits of a numeric NULL are those of what stands beside it."""
        sql_type, literal = canonical_type(node.to), strip_parentheses(node.this)
        if sql_type is None:
            raise NotProvable(f"a constant of type {node.to.sql(dialect='postgres')} is left to Postgres")
        if sql_type.family == "text":
            sql_type = replace(self.setting.text, oid=sql_type.oid)
        if isinstance(literal, exp.Null):
            return UntypedLiteral(None) if sql_type.family == "numeric" else null_constant(sql_type)
        text = str(literal.this)
        if not literal.args.get("is_string") and not (
            sql_type.family == "numeric" or sql_type.family == "float8" or (sql_type.is_integer and text.isdigit())
        ):
            return None
        return decimal(text) if sql_type.family == "numeric" else literal_constant(sql_type, text, utc=True)

    def computed(self, node: exp.Expr) -> TypedValue | None:
        """The value that Postgres computed for a constant expression."""
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
        """Two operands brought to one type: a literal takes the other's, numbers the wider one, datetimes in UTC become
        timestamps."""
        first, second = self.term_or_literal(left), self.term_or_literal(right)
        if isinstance(first, UntypedLiteral) and isinstance(second, UntypedLiteral):
            raise NotProvable("two literals without a type")
        if isinstance(first, UntypedLiteral):
            return self.term(left, second.sql_type), self.term(right)  # type: ignore[union-attr]
        if isinstance(second, UntypedLiteral):
            return first, self.term(right, first.sql_type)
        return self._to_common_type(first, second)

    def _to_common_type(self, first: Term, second: Term) -> tuple[Term, Term]:
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
        first, second = self.term_or_literal(left), self.term_or_literal(right)
        if any(isinstance(side, UntypedLiteral) and side.text is None for side in (first, second)):
            return null_constant(BOOL)
        if (
            not isinstance(first, UntypedLiteral)
            and not isinstance(second, UntypedLiteral)
            and (first.sql_type.is_float or second.sql_type.is_float)
        ):
            return self._compare_with_float(left, first, op, right, second)
        one, two = self.pair(left, right)
        if one.sql_type.is_float or two.sql_type.is_float:
            return compare_floats(one, op, two)
        check_comparable(resolve_collation(one.sql_type, two.sql_type), op)
        check_comparable(resolve_collation(two.sql_type, one.sql_type), op)
        compared = compose_term(BOOL, f"({{}} {op} {{}})", one, two)
        return replace(compared, bound=self._bound(left, one, op, right, two))

    def _compare_with_float(self, left: exp.Expr, one: Term, op: str, right: exp.Expr, two: Term) -> Term:
        """Postgres casts a numeric literal to the nearest float. So does Python; DuckDB does not always."""
        if one.column is None:
            left, one, op, right, two = right, two, MIRRORED[op], left, one
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
            return self.derive_bound(one, _BOUND_OPS[op], (right,))
        return self.derive_bound(two, _BOUND_OPS[MIRRORED[op]], (left,)) if two.column is not None else None

    def derive_bound(self, column: Term, op: Op, constants: Sequence[exp.Expr]) -> tuple[int, Bound] | None:
        """The bound on file statistics that a comparison of a column with constants implies."""
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
            case exp.Literal() | exp.Cast() if is_typed_literal(node):
                return literal_text(node)
            case exp.Neg() if isinstance(strip_parentheses(node.this), exp.Literal):
                return "-" + str(strip_parentheses(node.this).this)
            case exp.Parameter():
                at = int(str(node.this.this)) - 1
                return self.setting.parameters[at].text if 0 <= at < len(self.setting.parameters) else None
        return None

    def _arithmetic(self, node: exp.Expr) -> Term:
        first, second = self.term_or_literal(node.this), self.term_or_literal(node.expression)
        if isinstance(first, UntypedLiteral) or isinstance(second, UntypedLiteral):
            raise NotProvable("arithmetic with an untyped literal")
        one, two = first.sql_type, second.sql_type
        if one.is_integer and two.is_integer:
            return compile_integer_arithmetic(node, first, second)
        if one.is_number and two.is_number:
            return compile_numeric_arithmetic(node, first, second)
        if one.family == "date" and two.family in ("int2", "int4") and isinstance(node, exp.Add | exp.Sub):
            return compose_term(DATE, "({} + {})" if isinstance(node, exp.Add) else "({} - {})", first, second)
        if one.family == two.family == "date" and isinstance(node, exp.Sub):
            return compose_term(INT4, "CAST(({} - {}) AS INTEGER)", first, second, heap="({} - {})")
        raise NotProvable(f"{type(node).__name__.upper()} of {one.family} and {two.family} is left to Postgres")


def split_conditions(node: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition."""
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
