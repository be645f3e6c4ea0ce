"""Walks over the tree of a statement."""

from __future__ import annotations

from sqlglot import exp


def bare(node: exp.Expression) -> exp.Expression:
    """The expression inside its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a condition that must all hold."""
    return chained(node, exp.And)


def chained(node: exp.Expression, operator: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain of one operator, in order; a loop, because a chain of a thousand is a thousand levels
    deep."""
    found: list[exp.Expression] = []
    waiting = [node]
    while waiting:
        part = bare(waiting.pop())
        if isinstance(part, operator):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found
