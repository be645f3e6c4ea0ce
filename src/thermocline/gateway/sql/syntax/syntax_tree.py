"""Walks over the tree of a statement."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

from sqlglot import exp


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """The expression inside its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def split_conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    return flatten_operator(node, exp.And)


def flatten_operator(node: exp.Expr, operator: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of one operator, in order; a loop, because a chain of a thousand is a thousand levels
    deep."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = strip_parentheses(waiting.pop())
        if isinstance(part, operator):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


_NAME_BYTES = 63


def fold_identifier(name: exp.Identifier) -> str:
    """An identifier as Postgres means it: only letters of ASCII are folded, and names are cut at 63 bytes."""
    text = str(name.this) if name.args.get("quoted") else str(name.this).translate(_LOWER)
    return text if len(text) <= _NAME_BYTES // 4 else text.encode()[:_NAME_BYTES].decode("utf-8", "ignore")
