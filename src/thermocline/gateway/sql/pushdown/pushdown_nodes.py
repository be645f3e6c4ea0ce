"""The nodes and attributes that a statement may contain to be provable.

The parser may set attributes that the compiler does not read. Such attributes must be absent, so each node is checked
against this list.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from thermocline.gateway.sql.values import NotProvable

_PAIR = frozenset({"this", "expression"})
_ONE = frozenset({"this"})

_CONDITIONS: Mapping[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(
        (exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        _PAIR,
    ),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Any, exp.Neg, exp.Boolean, exp.Parameter), _ONE),
    exp.Is: _PAIR | {"negate"},
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Array: frozenset({"expressions", "bracket_notation"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
    exp.Cast: frozenset({"this", "to", "_type"}),
    exp.DataType: frozenset({"this", "expressions", "nested"}),
}

_STATEMENTS: Mapping[type[exp.Expr], frozenset[str]] = {
    **_CONDITIONS,
    exp.Select: frozenset({"expressions", "from_", "where", "order", "limit", "offset"}),
    exp.From: _ONE,
    exp.Where: _ONE,
    exp.Table: frozenset({"this", "db", "alias"}),
    exp.TableAlias: _ONE,
    exp.Alias: frozenset({"this", "alias"}),
    exp.Order: frozenset({"expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.Min: _ONE,
    exp.Max: _ONE,
    exp.Star: frozenset(),
}


def check_condition_nodes(node: exp.Expr) -> None:
    """Raise `NotProvable` for a node or attribute of a condition that is not compiled."""
    _check(node, _CONDITIONS)


def check_statement_nodes(tree: exp.Select) -> None:
    """Raise `NotProvable` for a node or attribute of a statement that is not compiled."""
    _check(tree, _STATEMENTS)


def _check(root: exp.Expr, allowed_nodes: Mapping[type[exp.Expr], frozenset[str]]) -> None:
    for node in root.walk():
        allowed = allowed_nodes.get(type(node))
        if allowed is None:
            raise NotProvable(f"{type(node).__name__} is left to Postgres")
        attributes = {name for name, value in node.args.items() if value not in (None, False, [])}
        if not attributes <= allowed:
            raise NotProvable(
                f"{type(node).__name__} with {', '.join(sorted(attributes - allowed))} is left to Postgres"
            )
