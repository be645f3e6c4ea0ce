"""Which statements are worth a closer look: one SELECT (or EXPLAIN of one) that names a spanning table. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from thermocline.gateway.sql.expressions.constants import parse_literal
from thermocline.gateway.sql.expressions.expressions import COMPUTED_NODES
from thermocline.gateway.sql.expressions.sql_types import DATE, TIMESTAMP, TIMESTAMPTZ
from thermocline.gateway.sql.syntax.parsing import Span, check_literals, find_span, parse, read_tokens, source_text
from thermocline.gateway.sql.syntax.query_nodes import check_query_nodes
from thermocline.gateway.sql.syntax.statements import split_statements
from thermocline.gateway.sql.syntax.syntax_tree import strip_parentheses
from thermocline.gateway.sql.syntax.token_checks import check_tokens
from thermocline.gateway.sql.values import NotProvable

# Possessive: what was passed is never tried again as a part of something longer; `re` holds the interpreter while it
# tries.
_BEGINS = re.compile(r"(?>\s+|--[^\n]*\n|/\*.*?\*/|\()*+(select|with|explain)\b", re.IGNORECASE | re.DOTALL)
_EXPLAIN = re.compile(
    r"\s*+explain\s*+(\([^()]*+\)|(?:(?:analyze|verbose)\s++)*+)\s*+((?:select|with|\().*)", re.IGNORECASE | re.DOTALL
)
_TYPES = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL, exp.DType.TIME})
_DATETIME_TYPES = {exp.DType.DATE: DATE, exp.DType.TIMESTAMP: TIMESTAMP, exp.DType.TIMESTAMPTZ: TIMESTAMPTZ}
_ONE_UNIT = re.compile(r"[+-]?\d++(?: [a-zA-Z]++)?")
_MOMENTS = (exp.Cast, exp.Interval, exp.CurrentDate, exp.CurrentTimestamp)
MAX_STATEMENT_CHARACTERS = 50_000
"""Longer ones are left to Postgres unread: parsing is linear, and 200,000 characters took 6 s of a thread that others
wait for."""
MAX_LEVELS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A statement that may be ours. `constants` are the expressions that Postgres computes for us, by their place in
    the text."""

    sql: str
    tree: exp.Expr
    constants: tuple[tuple[Span, str], ...]
    is_explained: bool = False
    is_analyzed: bool = False
    unsupported_reason: str | None = None
    """Why Postgres has to answer, where the text alone says so."""


def may_read_spanning(sql: str, names: frozenset[str]) -> bool:
    """A quick look, before anything is parsed."""
    if len(sql) > MAX_STATEMENT_CHARACTERS or not _BEGINS.match(sql):
        return False
    lowered = sql.lower()
    return any(name in lowered for name in names)


@lru_cache(maxsize=512)
def parse_candidate(sql: str) -> Candidate | str | None:
    """The statement as a tree; a sentence when it cannot be read; `None` when it is none of ours."""
    pieces = split_statements(sql)
    if len(pieces) != 1:
        return None
    text, explained, analyzed = pieces[0], False, False
    if found := _EXPLAIN.fullmatch(text):
        options, text, explained = found[1].lower(), found[2], True
        analyzed = "analyze" in options
        if "format" in options:
            return None
    try:
        tokens = read_tokens(text)
        tree = parse(text, tokens)
        if _is_deep(tree):
            return "the statement is nested too deeply"
    except Exception:
        # Whatever the parser stumbles over, Postgres can still judge the statement.
        return "the gateway cannot read this statement"
    if not isinstance(tree, exp.Select | exp.Union | exp.Subquery | exp.Intersect | exp.Except):
        return None
    unsupported_reason: str | None = None
    constants: tuple[tuple[Span, str], ...] = ()
    try:
        check_supported(tokens, tree)
        constants = _constants(text, tree)
    except NotProvable as why:
        unsupported_reason = str(why)
    return Candidate(
        text, tree, constants, is_explained=explained, is_analyzed=analyzed, unsupported_reason=unsupported_reason
    )


def _is_deep(tree: exp.Expr) -> bool:
    """Whether some expression has more levels than may be walked by recursion: a sum of a thousand terms has a
    thousand."""
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_LEVELS):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True


def check_supported(tokens: list[Token], tree: exp.Expr) -> None:
    """Raises `NotProvable` for a statement that cannot be answered here at all; Postgres is asked for the constants of
    the others only."""
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
        and _is_constant(node)
        and any(isinstance(part, _MOMENTS) for part in node.walk())
    )


def _is_constant(node: exp.Expr) -> bool:
    match node:
        case exp.Literal() | exp.CurrentDate() | exp.CurrentTimestamp():
            return not node.args.get("this") or isinstance(node, exp.Literal)
        case exp.Paren() | exp.Neg():
            return _is_constant(node.this)
        case exp.Interval():
            return isinstance(node.this, exp.Literal)
        case exp.Cast():
            return node.to.this in _TYPES and not node.to.expressions and _is_constant(node.this)
        case exp.Add() | exp.Sub():
            return _is_constant(node.this) and _is_constant(node.expression)
        case exp.TimestampTrunc():
            return _is_constant(node.this)
    return False


def is_setting_independent(tree: exp.Expr) -> bool:
    """Whether its literals mean the same under every setting of time zone, styles and strings."""
    return all(_is_setting_independent(node) for node in tree.walk())


def _is_setting_independent(node: exp.Expr) -> bool:
    match node:
        case exp.Literal():
            return not node.is_string or "\\" not in str(node.this)
        case exp.EQ():
            return not isinstance(strip_parentheses(node.this), exp.Null) and not isinstance(
                strip_parentheses(node.expression), exp.Null
            )
        case exp.Interval():
            return isinstance(node.this, exp.Literal) and _ONE_UNIT.fullmatch(str(node.this.this)) is not None
        case exp.Add() | exp.Sub():
            # An untyped string takes its type from the moment beside it, and is read by the session's styles and zone.
            return not any(_is_string(strip_parentheses(side)) for side in (node.this, node.expression))
        case exp.Cast() if node.to.this in _TYPES and _is_constant(node.this):
            return _is_independent_datetime(node.to.this, strip_parentheses(node.this))
    return True


def _is_independent_datetime(data_type: object, operand: exp.Expr) -> bool:
    if isinstance(operand, exp.CurrentDate | exp.CurrentTimestamp):
        return True
    if not isinstance(operand, exp.Literal) or not isinstance(data_type, exp.DType) or data_type not in _DATETIME_TYPES:
        return False
    try:
        return parse_literal(_DATETIME_TYPES[data_type], str(operand.this), utc=False) is not None
    except NotProvable:
        return False


def _is_string(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def check_statement(tree: exp.Expr) -> exp.Expr:
    """The query within its parentheses."""
    while isinstance(tree, exp.Subquery | exp.Paren) and tree.args.get("alias") is None:
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.Union):
        raise NotProvable("only SELECT and UNION are followed")
    return tree
