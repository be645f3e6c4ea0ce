"""The GROUP BY of a SELECT: its groups and aggregates, and the terms of the statement's expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from thermocline.gateway.sql.expressions.aggregates import AGGREGATES, Aggregate
from thermocline.gateway.sql.expressions.query_settings import NameResolver
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.expressions.terms import Term
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query.scope import Scope
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier, strip_parentheses
from thermocline.gateway.sql.values import NotProvable

UNNAMED = "?column?"
GROUPS_NAME = "k"
"""The name of the outermost GROUP BY in the WITH list of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """FROM and WHERE of a SELECT; the conditions are conjuncts."""

    tables: Fragment
    conditions: tuple[Term, ...] = ()

    @property
    def duckdb(self) -> Fragment:
        return self.where(self.conditions)

    def where(self, conditions: Sequence[Term]) -> Fragment:
        """FROM with only these conditions."""
        if not conditions:
            return self.tables
        return fill_template(
            "{} WHERE " + " AND ".join(["{}"] * len(conditions)), [self.tables, *(part.duckdb for part in conditions)]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """A GROUP BY: its groups and aggregates, and the nodes of the statement that they compute."""

    name: str
    scope: Scope
    source: FromClause
    groups: tuple[Term, ...]
    aggregates: tuple[Aggregate, ...]
    nodes: tuple[exp.Expr, ...]
    group_nodes: tuple[exp.Expr, ...]

    @property
    def duckdb(self) -> Fragment:
        return self.over_rows(self.source.duckdb)

    def over_rows(self, rows: Fragment) -> Fragment:
        """The GROUP BY over these rows."""
        select_list = [term.duckdb for term in self.groups] + [aggregate.duckdb for aggregate in self.aggregates]
        return render_group_by(select_list, self.names, rows, len(self.groups))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"g{at}" for at in range(len(self.groups))) + tuple(f"a{at}" for at in range(len(self.aggregates)))

    @property
    def sql_types(self) -> tuple[SqlType, ...]:
        return tuple(term.sql_type for term in self.groups) + tuple(aggregate.sql_type for aggregate in self.aggregates)

    def grouped_terms(self) -> list[tuple[exp.Expr, Term]]:
        """The nodes of the statement, each with its term: a column of the groups."""
        return [
            (
                node,
                Term(
                    sql_type=sql_type,
                    duckdb=Fragment(f"{self.name}.{name}"),
                    heap=None,
                    relation_numbers=frozenset({-1}),
                ),
            )
            for node, name, sql_type in zip((*self.group_nodes, *self.nodes), self.names, self.sql_types, strict=True)
        ]


def render_group_by(select_list: Sequence[Fragment], names: Sequence[str], source: Fragment, groups: int) -> Fragment:
    """SELECT … GROUP BY the first `groups` columns."""
    outputs = fill_template(", ".join(f"{{}} AS {name}" for name in names) or "1", select_list)
    tail = Fragment(" GROUP BY " + ", ".join(str(at + 1) for at in range(groups)) if groups else "")
    return fill_template("SELECT {} FROM {}{}", [outputs, source, tail])


class GroupedNames:
    """Resolves column names after a GROUP BY: only grouped columns, and those of outer queries."""

    def __init__(self, group_by: GroupBy, outer: NameResolver | None) -> None:
        self._group_by = group_by
        self._outer = outer
        self._grouped_columns = {
            term.duckdb.text: at for at, term in enumerate(group_by.groups) if term.column is not None
        }

    def column(self, node: exp.Column) -> Term:
        term = self._group_by.scope.column(node)
        at = self._grouped_columns.get(term.duckdb.text)
        if at is None:
            raise NotProvable("a column that is not grouped by")
        return Term(
            sql_type=term.sql_type,
            duckdb=Fragment(f"{self._group_by.name}.g{at}"),
            heap=None,
            relation_numbers=frozenset({-1}),
        )

    def bound(self, column: object, op: object, values: object) -> None:
        return None

    def is_local(self, relation_numbers: frozenset[int]) -> bool:
        return False


def call_of(node: exp.Expr) -> exp.Expr:
    """The aggregate call, without its FILTER."""
    return node.this if isinstance(node, exp.Filter) else node


def aggregate_places(node: exp.Select) -> list[exp.Expr]:
    """The parts of a SELECT that may contain aggregates."""
    parts = list(node.expressions)
    for word in ("having", "order"):
        if node.args.get(word) is not None:
            parts.append(node.args[word])
    return parts


def aggregates_in(node: exp.Select) -> list[exp.Expr]:
    """The aggregate calls of this SELECT itself, each once, FILTER included."""
    found: list[exp.Expr] = []
    for part in aggregate_places(node):
        for inner in part.walk(
            prune=lambda child: isinstance(child, exp.Subquery | exp.Select | exp.Window | exp.Filter | exp.AggFunc)
        ):
            call = call_of(inner)
            if isinstance(inner, exp.Filter | exp.AggFunc) and not isinstance(inner, exp.Window):
                if not isinstance(call, AGGREGATES):
                    raise NotProvable(f"{type(call).__name__.upper()} is left to Postgres")
                if inner not in found:
                    found.append(inner)
    return found


def output_name(node: exp.Expr) -> str:
    """The name of an output column. In the canonical form every name is written, except a column's own and
    `?column?`."""
    if isinstance(node, exp.Alias):
        return fold_identifier(node.args["alias"])
    node = strip_parentheses(node)
    return fold_identifier(node.this) if isinstance(node, exp.Column) else UNNAMED


def find_output(node: exp.Expr, outputs: Sequence[exp.Expr]) -> int | None:
    """The output that a sort key refers to. In the canonical form it is the output's own expression; only a UNION is
    sorted by numbers."""
    key = strip_parentheses(node)
    for at, output in enumerate(outputs):
        if strip_parentheses(output.this if isinstance(output, exp.Alias) else output) == key:
            return at
    return None


def find_union_output(node: exp.Expr, count: int) -> int:
    """The output of a UNION that a sort key refers to by its number."""
    key = strip_parentheses(node)
    at = int(str(key.this)) - 1 if isinstance(key, exp.Literal) and not key.is_string else -1
    if not 0 <= at < count:
        raise NotProvable("a sort key of a UNION that is no output")
    return at
