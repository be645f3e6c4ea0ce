"""Find the statements that DuckDB may run: one SELECT (or EXPLAIN of one) that names a spanning table. Pure.

The client's text is only searched for names. What it means, Postgres says: its canonical form is what is parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from thermocline.gateway.sql.expressions.expressions import COMPUTED_NODES
from thermocline.gateway.sql.syntax.parsing import Span, check_literals, find_span, parse, read_tokens, source_text
from thermocline.gateway.sql.syntax.query_nodes import check_query_nodes
from thermocline.gateway.sql.syntax.statements import split_statements
from thermocline.gateway.sql.syntax.syntax_tree import TREE_BYTES_PER_CHARACTER, TREES_BYTES, is_typed_literal
from thermocline.gateway.sql.syntax.token_checks import check_tokens
from thermocline.gateway.sql.values import NotProvable
from thermocline.runtime.memory.bounded_cache import cached_by_text

# Possessive, so that `re` does not backtrack into matched text: it holds the GIL meanwhile.
_BEGINS = re.compile(r"(?>\s+|--[^\n]*\n|/\*.*?\*/|\()*+(select|with|explain)\b", re.IGNORECASE | re.DOTALL)
_EXPLAIN = re.compile(
    r"\s*+explain\s*+(\([^()]*+\)|(?:(?:analyze|verbose)\s++)*+)\s*+((?:select|with|\().*)", re.IGNORECASE | re.DOTALL
)
_TYPES = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL, exp.DType.TIME})
_MOMENTS = (exp.Cast, exp.CurrentDate, exp.CurrentTimestamp)
MAX_STATEMENT_CHARACTERS = 50_000
"""Longer ones are left to Postgres unread: parsing is linear, and 200,000 characters took 6 s of a thread that others
wait for."""
MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement of the client that DuckDB may run: its text, without EXPLAIN."""

    sql: str
    is_explained: bool = False
    is_analyzed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CanonicalQuery:
    """A statement as Postgres printed it. `constants` are the expressions that Postgres computes beforehand, by their
    span."""

    text: str
    tree: exp.Expr
    constants: tuple[tuple[Span, str], ...]
    unsupported_reason: str | None = None
    """Why Postgres has to run the statement, where its text alone decides that."""


def may_read_spanning(sql: str, names: frozenset[str]) -> bool:
    """A quick test of the text, before anything is read."""
    if len(sql) > MAX_STATEMENT_CHARACTERS or not _BEGINS.match(sql):
        return False
    lowered = sql.lower()
    return any(name in lowered for name in names)


def read_candidate(sql: str) -> Candidate | None:
    """The statement when it is a single SELECT, or EXPLAIN of one; Postgres reads it, so only its beginning counts
    here."""
    pieces = split_statements(sql)
    if len(pieces) != 1:
        return None
    found = _EXPLAIN.fullmatch(pieces[0])
    if found is None:
        return Candidate(sql)
    options = found[1].lower()
    return None if "format" in options else Candidate(found[2], is_explained=True, is_analyzed="analyze" in options)


@cached_by_text(max_bytes=TREES_BYTES, bytes_per_character=TREE_BYTES_PER_CHARACTER)
def parse_canonical(text: str) -> CanonicalQuery:
    """The parsed statement; raises `NotProvable` when it cannot be parsed."""
    if len(text) > MAX_STATEMENT_CHARACTERS * 4:
        raise NotProvable("the statement is long")
    try:
        tokens = read_tokens(text)
        tree = parse(text, tokens)
        is_deep = _is_deep(tree)
    except Exception as problem:
        # Whatever the parser fails on, Postgres can still run the statement.
        raise NotProvable("the gateway cannot read this statement") from problem
    if is_deep:
        raise NotProvable("the statement is nested too deeply")
    try:
        check_supported(tokens, tree)
        return CanonicalQuery(text, tree, _constants(text, tree))
    except NotProvable as why:
        return CanonicalQuery(text, tree, (), unsupported_reason=str(why))


def _is_deep(tree: exp.Expr) -> bool:
    """Whether the tree is too deep for recursion: a sum of a thousand terms has a thousand levels."""
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_LEVELS):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True


def check_supported(tokens: list[Token], tree: exp.Expr) -> None:
    """Raise `NotProvable` for a statement that DuckDB cannot run. For the others, Postgres computes the constants."""
    check_tokens(tokens)
    check_query_nodes(check_statement(tree))
    check_literals(tokens, tree)


def _constants(text: str, tree: exp.Expr) -> tuple[tuple[Span, str], ...]:
    found: dict[Span, str] = {}
    for node in tree.walk(prune=_is_computed):
        if _is_computed(node) and (span := find_span(node)) is not None:
            found[span] = source_text(text, node)
    return tuple(found.items())


def _is_computed(node: exp.Expr) -> bool:
    return (
        isinstance(node, COMPUTED_NODES)
        and not is_typed_literal(node)
        and _is_constant(node)
        and any(isinstance(part, _MOMENTS) for part in node.walk())
    )


def _is_constant(node: exp.Expr) -> bool:
    match node:
        case exp.Literal():
            return True
        case exp.CurrentDate() | exp.CurrentTimestamp():
            return not node.args.get("this")
        case exp.Paren():
            return _is_constant(node.this)
        case exp.Cast():
            kind = node.to.this
            is_moment = kind in _TYPES or isinstance(kind, exp.Interval)
            return is_moment and not node.to.expressions and _is_constant(node.this)
        case exp.Add() | exp.Sub():
            return _is_constant(node.this) and _is_constant(node.expression)
        case exp.TimestampTrunc():
            return _is_constant(node.this)
    return False


def check_statement(tree: exp.Expr) -> exp.Expr:
    """The query without its parentheses."""
    while isinstance(tree, exp.Subquery | exp.Paren) and tree.args.get("alias") is None:
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.Union):
        raise NotProvable("only SELECT and UNION are followed")
    return tree
