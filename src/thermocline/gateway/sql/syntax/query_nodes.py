"""The nodes and attributes that a whole query may contain, and the operands that must be in parentheses to be
unambiguous.

The parser may set attributes that the compiler does not read. Such attributes must be absent.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from thermocline.gateway.sql.values import NotProvable

_PAIR = frozenset({"this", "expression"})
_ONE = frozenset({"this"})
_NONE: frozenset[str] = frozenset()

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_RANGED = (exp.In, exp.Like, exp.Between)

ALLOWED_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(
        (exp.And, exp.Or, *_COMPARISONS, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Nullif, exp.Left, exp.Right), _PAIR
    ),
    **dict.fromkeys(
        (exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.Parameter, exp.Exists, exp.From, exp.Where, exp.Having), _ONE
    ),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Abs, exp.Length, exp.LogicalAnd, exp.LogicalOr), _ONE),
    **dict.fromkeys((exp.Var, exp.Lower, exp.Upper), _ONE),
    **dict.fromkeys(
        (exp.Null, exp.Star, exp.CurrentDate, exp.CurrentTimestamp, exp.RowNumber, exp.Rank, exp.DenseRank), _NONE
    ),
    exp.Div: _PAIR | {"typed", "safe"},
    exp.DPipe: _PAIR | {"safe"},
    exp.Is: _PAIR | {"negate"},
    exp.Like: _PAIR | {"negate"},
    exp.Between: frozenset({"this", "low", "high", "negate"}),
    exp.In: frozenset({"this", "expressions", "query", "negate"}),
    exp.Column: frozenset({"this", "table", "db"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Cast: frozenset({"this", "to", "_type"}),
    exp.DataType: frozenset({"this", "expressions", "nested"}),
    exp.DataTypeParam: _ONE,
    exp.Interval: frozenset({"unit"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
    exp.Round: frozenset({"this", "decimals"}),
    exp.Extract: _PAIR,
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Filter: _PAIR,
    exp.Window: frozenset({"this", "partition_by", "order", "over"}),
    exp.Select: frozenset(
        {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
    ),
    exp.Table: frozenset({"this", "db", "alias", "joins"}),
    exp.TableAlias: _ONE,
    exp.Subquery: frozenset({"this", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "side", "kind"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Group: frozenset({"expressions"}),
    exp.Order: frozenset({"expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.Union: frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"}),
}

RESERVED = frozenset(
    {
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "authorization",
        "binary",
        "both",
        "case",
        "cast",
        "check",
        "collate",
        "collation",
        "column",
        "concurrently",
        "constraint",
        "create",
        "cross",
        "current_catalog",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "freeze",
        "from",
        "full",
        "grant",
        "group",
        "having",
        "ilike",
        "in",
        "initially",
        "inner",
        "intersect",
        "into",
        "is",
        "isnull",
        "join",
        "lateral",
        "leading",
        "left",
        "like",
        "limit",
        "localtime",
        "localtimestamp",
        "natural",
        "not",
        "notnull",
        "null",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "outer",
        "overlaps",
        "placing",
        "primary",
        "references",
        "returning",
        "right",
        "select",
        "session_user",
        "similar",
        "some",
        "symmetric",
        "system_user",
        "table",
        "tablesample",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "variadic",
        "verbose",
        "when",
        "where",
        "window",
        "with",
    }
)
"""Words that name no column in Postgres unless they are quoted: `user` is a function, although a column may be called
so."""

_UNGROUPED: Mapping[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    **dict.fromkeys(_COMPARISONS, (*_COMPARISONS, *_RANGED, exp.Is, exp.Not, exp.And, exp.Or, exp.DPipe)),
    **dict.fromkeys(_RANGED, (*_COMPARISONS, *_RANGED, exp.Is, exp.Not, exp.And, exp.Or, exp.DPipe)),
    **dict.fromkeys(_ARITHMETIC, (*_COMPARISONS, *_RANGED, exp.DPipe, exp.Is, exp.Not, exp.And, exp.Or)),
    exp.Is: (*_COMPARISONS, *_RANGED, exp.Is, exp.Not, exp.And, exp.Or, exp.DPipe),
    exp.DPipe: (*_COMPARISONS, *_RANGED, *_ARITHMETIC, exp.Is, exp.Not, exp.And, exp.Or, exp.Neg),
    exp.Neg: (*_ARITHMETIC, *_COMPARISONS, exp.DPipe, exp.Not, exp.Neg),
    exp.Not: (exp.And, exp.Or),
}
"""Under the key, operands of these types must be in parentheses."""


def check_query_nodes(root: exp.Expr) -> None:
    """Raise `NotProvable` for a node or attribute that is not compiled, and for operators without needed
    parentheses."""
    for node in root.walk():
        allowed = ALLOWED_NODES.get(type(node))
        if allowed is None:
            raise NotProvable(f"{_node_name(node)} is left to Postgres")
        attributes = {name for name, value in node.args.items() if value not in (None, False, [])}
        if not attributes <= allowed:
            raise NotProvable(f"{_node_name(node)} with {', '.join(sorted(attributes - allowed))} is left to Postgres")
        check_grouping(node)
        if isinstance(node, exp.Identifier) and not node.args.get("quoted") and str(node.this).lower() in RESERVED:
            raise NotProvable(f"{str(node.this).upper()} is a word of Postgres' own")


def check_grouping(node: exp.Expr) -> None:
    parenthesised = _UNGROUPED.get(type(node), ())
    for name in ("this", "expression", "low", "high"):
        child = node.args.get(name)
        if isinstance(child, parenthesised):
            raise NotProvable(f"{_node_name(child)} within {_node_name(node)} without parentheses is left to Postgres")


def _node_name(node: exp.Expr) -> str:
    return type(node).__name__.upper() if not isinstance(node, exp.Anonymous) else f"{node.name}()"
