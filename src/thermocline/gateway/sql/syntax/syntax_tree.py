"""Walks over the tree of a statement."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

from sqlglot import exp

TREE_BYTES_PER_CHARACTER = 160
"""What a tree takes in memory, measured on short statements and on IN lists of 5,000 values."""
TREES_BYTES = 64 << 20
"""The most that a cache of trees holds."""


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """The expression inside its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_typed_literal(node: exp.Expr) -> bool:
    """Whether the node is a constant in the canonical form: a number, or a literal with its type."""
    if isinstance(node, exp.Cast):
        node = strip_parentheses(node.this)
    return isinstance(node, exp.Literal | exp.Null)


def literal_text(node: exp.Expr) -> str | None:
    """The text of a typed literal; `None` for NULL and for what is no literal."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Cast):
        node = strip_parentheses(node.this)
    return str(node.this) if isinstance(node, exp.Literal) else None


def split_conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition."""
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
    """An identifier as Postgres folds it: only ASCII letters, truncated at 63 bytes."""
    text = str(name.this) if name.args.get("quoted") else str(name.this).translate(_LOWER)
    return text if len(text) <= _NAME_BYTES // 4 else text.encode()[:_NAME_BYTES].decode("utf-8", "ignore")
