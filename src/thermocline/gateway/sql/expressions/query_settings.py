"""What the compilation of an expression depends on: names, subqueries, settings of the session."""

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
