"""What the compilation of an expression depends on: column names, subqueries, settings of the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.expressions.sql_types import TEXT, SqlType
from thermocline.gateway.sql.expressions.terms import Term
from thermocline.gateway.sql.syntax.parsing import Span
from thermocline.lake.read.scan import Bound, Op


class NameResolver(Protocol):
    """Resolves the column names of an expression."""

    def column(self, node: exp.Column) -> Term: ...
    def bound(self, column: tuple[int, str], op: Op, values: tuple[object, ...]) -> tuple[int, Bound] | None: ...
    def is_local(self, relation_numbers: frozenset[int]) -> bool:
        """Whether all these relations are in the FROM clause of this SELECT."""
        ...


class SubqueryCompiler(Protocol):
    """Compiles subqueries of an expression."""

    def scalar(self, node: exp.Expr, names: NameResolver) -> Term: ...
    def exists(self, node: exp.Expr, names: NameResolver) -> Term: ...
    def in_subquery(self, left: Term, node: exp.Expr, names: NameResolver) -> Term: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """A statement's text, parameter values and constants that Postgres computed, and whether the session is in UTC.

    `sql` is the canonical text. `text_is_c`: the database's default collation orders text by its bytes.
    """

    sql: str = ""
    parameters: Sequence[TypedValue] = ()
    computed: Mapping[Span, TypedValue] = field(default_factory=dict)
    utc: bool = True
    text_is_c: bool = False

    @property
    def text(self) -> SqlType:
        """The type of text that comes from no column: it has the database's default collation."""
        return replace(TEXT, is_c=self.text_is_c)
