"""The parser of canonical statements: sqlglot's, with a limit on its steps and the span of each expression in the text.

sqlglot backtracks in some nestings, twice as often on each level (`array[array[…`, `timestamp (timestamp (…`); the
limit also covers forms that are not known yet. By its span, a part of a statement is sent to Postgres in the text that
Postgres printed: what sqlglot prints is its own interpretation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from thermocline.gateway.sql.syntax.canonical_forms import simplify_canonical
from thermocline.gateway.sql.values import NotProvable

STEPS_FOR_EACH_TOKEN = 3
"""Ordinary statements take at most two steps for each of their tokens."""
_FEWEST_STEPS = 500
_SPAN = "span"
_DIALECT = Postgres()

Span = tuple[int, int]


class TooManySteps(Exception):
    """The parser backtracks too often."""


def _record_span(method: Callable[..., exp.Expr | None]) -> Callable[..., exp.Expr | None]:
    """Record the span of each node that the method returns; the innermost method comes first and wins."""

    def parse(self: _Parser, *args: Any, **options: Any) -> exp.Expr | None:
        begin = self._index
        node = method(self, *args, **options)
        if isinstance(node, exp.Expr) and begin < self._index <= len(self._tokens):
            node.meta.setdefault(_SPAN, (self._tokens[begin].start, self._tokens[self._index - 1].end + 1))
        return node

    return parse


class _Parser(PostgresParser):
    steps = 0
    allowed = 0

    def _advance(self, times: int = 1) -> None:
        self.steps += 1
        if self.steps > self.allowed:
            raise TooManySteps
        super()._advance(times)

    _parse_unary = _record_span(PostgresParser._parse_unary)
    _parse_range = _record_span(PostgresParser._parse_range)
    _parse_primary = _record_span(PostgresParser._parse_primary)
    _parse_function = _record_span(PostgresParser._parse_function)


def read_tokens(text: str) -> list[Token]:
    tokens: list[Token] = _DIALECT.tokenize(text)
    return tokens


def parse(text: str, tokens: list[Token]) -> exp.Expr:
    """The one statement; `ValueError` when the text has several or none."""
    parser = _Parser(dialect=_DIALECT)
    parser.allowed = STEPS_FOR_EACH_TOKEN * len(tokens) + _FEWEST_STEPS
    statements = parser.parse(tokens, text)
    if len(statements) != 1 or statements[0] is None:
        raise ValueError("not one statement")
    return simplify_canonical(statements[0])


def find_span(node: exp.Expr) -> Span | None:
    """The span of the expression in its statement."""
    if (found := node.meta.get(_SPAN)) is not None:
        # The recorded span of IS begins after its operand.
        first = find_span(node.this) if isinstance(node, exp.Is) else found
        return (first[0], found[1]) if first is not None else None
    if isinstance(node, exp.Column):
        parts = [part.meta for part in node.parts]
        return (parts[0]["start"], parts[-1]["end"] + 1) if all("start" in part for part in parts) else None
    if isinstance(node, exp.Binary):
        first, second = find_span(node.this), find_span(node.expression)
        return (first[0], second[1]) if first is not None and second is not None else None
    return None


def source_text(text: str, node: exp.Expr) -> str:
    """The expression's own text. Raises `NotProvable` when that text, parsed alone, is another expression."""
    span = find_span(node)
    words = text[span[0] : span[1]] if span is not None else ""
    if not words or _parse_alone(words) != node:
        raise NotProvable(f"{type(node).__name__.upper()} has no words of its own in the statement")
    return words


def _parse_alone(words: str) -> exp.Expr | None:
    query = f"SELECT {words}"  # parsed, not run
    try:
        read = parse(query, read_tokens(query))
    except Exception:
        return None
    return read.expressions[0] if isinstance(read, exp.Select) and len(read.expressions) == 1 else None


def check_literals(tokens: Sequence[Token], tree: exp.Expr) -> None:
    """Raise `NotProvable` when the tree does not hold every literal as written: the parser drops parts of some."""
    if Counter(_literals_in_tokens(tokens)) != Counter(_literals_in_tree(tree)):
        raise NotProvable("a literal in a form of its own is left to Postgres")


def _literals_in_tokens(tokens: Sequence[Token]) -> list[tuple[bool, str]]:
    found: list[tuple[bool, str]] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        if token.token_type is TokenType.NUMBER:
            is_fraction = before is not None and before.token_type is TokenType.DOT
            found.append((False, f"0.{token.text}" if is_fraction else token.text))
        elif token.token_type is TokenType.STRING:
            is_unit = (
                before is not None
                and before.token_type is TokenType.L_PAREN
                and tokens[at - 2].text.lower() == "date_trunc"
            )
            found.append((True, token.text.upper() if is_unit else token.text))
    return found


def _literals_in_tree(tree: exp.Expr) -> list[tuple[bool, str]]:
    found: list[tuple[bool, str]] = []
    for node in tree.walk():
        if isinstance(node, exp.TimestampTrunc):
            found.append((True, str(node.args["unit"].this)))
        if isinstance(node, exp.Literal):
            found.append((bool(node.is_string), str(node.this)))
    return found
