"""Forms of the canonical dialect, brought to the ones that the compiler knows.

Postgres prints `x IN (1, 2)` as `x = ANY (ARRAY[1, 2])`, and the unit of `date_trunc` as a literal with its type.
"""

from __future__ import annotations

from sqlglot import exp

from thermocline.gateway.sql.syntax.syntax_tree import strip_parentheses


def simplify_canonical(tree: exp.Expr) -> exp.Expr:
    """The tree, in which lists are IN and units are words; everything else stays as it is."""
    return tree.transform(_simplify, copy=False)


def _simplify(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.EQ() if isinstance(node.expression, exp.Any):
            elements = _elements(node.expression.this)
            return node if elements is None else _list(node, elements, negate=False)
        case exp.NEQ() if isinstance(node.expression, exp.Anonymous) and str(node.expression.this).upper() == "ALL":
            given = node.expression.expressions
            elements = _elements(given[0]) if len(given) == 1 else None
            return node if elements is None else _list(node, elements, negate=True)
        case exp.TimestampTrunc():
            unit = node.args.get("unit")
            word = unit.this if isinstance(unit, exp.Cast) and unit.to.this is exp.DType.TEXT else None
            if isinstance(word, exp.Literal) and word.is_string:
                node.set("unit", exp.Var(this=str(word.this).upper()))
    return node


def _elements(node: exp.Expr) -> list[exp.Expr] | None:
    array = strip_parentheses(node)
    return list(array.expressions) if isinstance(array, exp.Array) and array.expressions else None


def _list(node: exp.Expr, elements: list[exp.Expr], *, negate: bool) -> exp.Expr:
    found = exp.In(this=node.this, expressions=elements, **({"negate": True} if negate else {}))
    found.meta.update(node.meta)
    return found
