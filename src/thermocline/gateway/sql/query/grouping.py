"""The GROUP BY of a SELECT: its groups and aggregates, and what the statement's own expressions are over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_UNNAMED = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.DPipe,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Literal,
    exp.Null,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
)
_DEFAULT_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.Coalesce: "coalesce",
    exp.Nullif: "nullif",
    exp.Extract: "extract",
    exp.TimestampTrunc: "date_trunc",
}

GROUPS_NAME = "k"
"""The name of the outermost GROUP BY among the sources of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """FROM and WHERE of a SELECT; all of the conditions must hold."""

    tables: Fragment
    conditions: tuple[Term, ...] = ()

    @property
    def duckdb(self) -> Fragment:
        return self.where(self.conditions)

    def where(self, conditions: Sequence[Term]) -> Fragment:
        """The rows for which these of the conditions hold."""
        if not conditions:
            return self.tables
        return fill_template(
            "{} WHERE " + " AND ".join(["{}"] * len(conditions)), [self.tables, *(part.duckdb for part in conditions)]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """A GROUP BY: the groups and aggregates over its rows, and what they stand for in the statement."""

    name: str
    scope: Scope
    source: FromClause
    groups: tuple[Term, ...]
    aggregates: tuple[Aggregate, ...]
    nodes: tuple[exp.Expr, ...]
    group_nodes: tuple[exp.Expr, ...]

    @property
    def duckdb(self) -> Fragment:
        return self.over(self.source.duckdb)

    def over(self, rows: Fragment) -> Fragment:
        """The groups of these rows."""
        listed = [term.duckdb for term in self.groups] + [made.duckdb for made in self.aggregates]
        return grouped(listed, self.names, rows, len(self.groups))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"g{at}" for at in range(len(self.groups))) + tuple(f"a{at}" for at in range(len(self.aggregates)))

    @property
    def sql_types(self) -> tuple[SqlType, ...]:
        return tuple(term.sql_type for term in self.groups) + tuple(made.sql_type for made in self.aggregates)

    def replaced(self) -> list[tuple[exp.Expr, Term]]:
        """The statement's own expressions, as columns of the core."""
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


def grouped(listed: Sequence[Fragment], names: Sequence[str], source: Fragment, groups: int) -> Fragment:
    """SELECT … GROUP BY the first so many columns."""
    outputs = fill_template(", ".join(f"{{}} AS {name}" for name in names) or "1", listed)
    tail = Fragment(" GROUP BY " + ", ".join(str(at + 1) for at in range(groups)) if groups else "")
    return fill_template("SELECT {} FROM {}{}", [outputs, source, tail])


class GroupedNames:
    """Names behind a GROUP BY: its columns, and those of the queries around."""

    def __init__(self, group_by: GroupBy, outer: NameResolver | None) -> None:
        self._group_by = group_by
        self._outer = outer
        self._known = {term.duckdb.text: at for at, term in enumerate(group_by.groups) if term.column is not None}

    def column(self, node: exp.Column) -> Term:
        term = self._group_by.scope.column(node)
        at = self._known.get(term.duckdb.text)
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
    """The aggregate within its FILTER."""
    return node.this if isinstance(node, exp.Filter) else node


def aggregate_places(node: exp.Select) -> list[exp.Expr]:
    """The parts of a SELECT in which aggregates may stand."""
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


def output_name(node: exp.Expr) -> str | None:
    """The name of an output as Postgres gives it, or `None` where its rules are not followed."""
    if isinstance(node, exp.Alias):
        alias = node.args["alias"]
        return fold_identifier(alias) if isinstance(alias, exp.Identifier) else None
    node = strip_parentheses(node)
    if isinstance(node, exp.Column):
        return fold_identifier(node.this) if isinstance(node.this, exp.Identifier) else None
    if isinstance(node, exp.Window | exp.Filter):
        node = call_of(node.this)
    return UNNAMED if isinstance(node, _UNNAMED) else _DEFAULT_NAMES.get(type(node))


def find_output(node: exp.Expr, names: Sequence[str | None]) -> int | None:
    """Which output a sort key is: by number, or by a bare name."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(str(node.this)) - 1
        if not 0 <= at < len(names):
            raise NotProvable("a sort key out of range")
        return at
    if isinstance(node, exp.Column) and node.args.get("table") is None and isinstance(node.this, exp.Identifier):
        name = fold_identifier(node.this)
        if list(names).count(name) > 1:
            raise NotProvable("two outputs of one name")
        if name not in names and None in names:
            raise NotProvable("an output may have this name")
        return list(names).index(name) if name in names else None
    return None


def resolve_group_item(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """What a GROUP BY item means: a number is an output; a bare name is an input column first, an output's alias
    second."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Literal) and not node.is_string:
        found = select.expressions[int(str(node.this)) - 1]
        return strip_parentheses(found.this if isinstance(found, exp.Alias) else found)
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        name = fold_identifier(node.this)
        if not any(name in relation.names() for relation in scope.relations):
            for part in select.expressions:
                if isinstance(part, exp.Alias) and output_name(part) == name:
                    return strip_parentheses(part.this)
    return node
