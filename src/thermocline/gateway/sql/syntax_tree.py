"""Walks over the tree of a statement."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

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


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


_NAME_BYTES = 63


def fold(name: exp.Identifier) -> str:
    """An identifier as Postgres means it: only letters of ASCII are folded, and names are cut at 63 bytes."""
    text = str(name.this) if name.args.get("quoted") else str(name.this).translate(_LOWER)
    return text if len(text) <= _NAME_BYTES // 4 else text.encode()[:_NAME_BYTES].decode("utf-8", "ignore")
