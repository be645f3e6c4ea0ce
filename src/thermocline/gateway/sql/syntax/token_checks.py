"""The calls and numbers of a canonical statement, judged by its tokens.

The parser forgets how a function was spelled. It reads `len(x)`, which may be a function of the user's, as LENGTH;
`date_part` as EXTRACT, which has another type; `date_trunc('Q', …)`, an error in Postgres, as a quarter; a column in
the place of a unit as the unit. Invariant: a statement is followed only when each of its calls is one of Postgres' own,
spelled as Postgres spells it, and when each unit and field is a constant word that Postgres takes in the same meaning.
In the canonical form a function that is not Postgres' own has its schema before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from thermocline.gateway.sql.syntax.query_nodes import RESERVED
from thermocline.gateway.sql.values import NotProvable

TRUNCATE_UNITS = frozenset({"second", "minute", "hour", "day", "week", "month", "quarter", "year"})
"""Units of `date_trunc`; Postgres knows more, and abbreviations."""
EXTRACT_FIELDS = frozenset({"year", "month", "day", "hour", "minute", "quarter", "week", "dow", "isodow", "doy"})
"""Fields of EXTRACT."""
SUPPORTED_FUNCTIONS = frozenset(
    {
        "abs",
        "avg",
        "bool_and",
        "bool_or",
        "char_length",
        "character_length",
        "coalesce",
        "count",
        "date_trunc",
        "dense_rank",
        "every",
        "extract",
        "left",
        "length",
        "lower",
        "max",
        "min",
        "mod",
        "now",
        "nullif",
        "rank",
        "right",
        "round",
        "row_number",
        "substr",
        "substring",
        "sum",
        "upper",
    }
)
"""Functions of Postgres' own that are followed: a function of the user's with one of these names may be meant
instead."""
_WORDS = frozenset(
    {
        "all",
        "and",
        "any",
        "as",
        "between",
        "by",
        "case",
        "cast",
        "distinct",
        "else",
        "exists",
        "filter",
        "from",
        "having",
        "in",
        "is",
        "join",
        "like",
        "limit",
        "not",
        "offset",
        "on",
        "or",
        "over",
        "select",
        "then",
        "union",
        "when",
        "where",
        "with",
    }
)
"""Words that may stand before a parenthesis and call nothing."""
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_TYPED = (TokenType.NUMBER, TokenType.DOT, TokenType.VAR, TokenType.IDENTIFIER)
"""What has a type of its own, which a plus sign before it keeps: numbers, columns, calls."""
_OPERAND_ENDS = (*_QUOTED, TokenType.HEREDOC_STRING, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET)
_OPERANDS = frozenset({"current_date", "current_timestamp", "end", "false", "null", "true"})
"""Reserved words that end an operand."""


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raises `NotProvable` for a call that is not followed, and for a number, unit or field that Postgres may
    understand in another way."""
    for at, token in enumerate(tokens[:-1]):
        if (
            token.token_type is TokenType.NUMBER
            and token.end + 1 == tokens[at + 1].start
            and _begins_word(tokens[at + 1])
        ):
            raise NotProvable(f"{token.text}{tokens[at + 1].text} is left to Postgres")
        if (
            token.token_type is TokenType.PLUS
            and tokens[at + 1].token_type not in _TYPED
            and not (at and _ends_operand(tokens[at - 1]))
        ):
            raise NotProvable("a plus sign before something that may have no type is left to Postgres")
        if tokens[at + 1].token_type is not TokenType.L_PAREN or not _begins_word(token):
            continue
        name = token.text if token.token_type in _QUOTED else token.text.lower().split()[-1]
        if not name.isascii() or name not in SUPPORTED_FUNCTIONS | _WORDS:
            raise NotProvable(f"{token.text}() is left to Postgres")
        inside = tokens[at + 2 : at + 4]
        if at and tokens[at - 1].token_type is TokenType.DOT:
            raise NotProvable(f"{token.text}() of a schema of its own is left to Postgres")
        if name == "date_trunc" and not _is_constant(inside, TRUNCATE_UNITS, (TokenType.STRING,), TokenType.DCOLON):
            raise NotProvable("this unit of date_trunc is left to Postgres")
        if name == "extract" and not _is_constant(
            inside, EXTRACT_FIELDS, (TokenType.STRING, TokenType.VAR), TokenType.FROM
        ):
            raise NotProvable("this field of EXTRACT is left to Postgres")


def _ends_operand(token: Token) -> bool:
    if token.token_type in _OPERAND_ENDS:
        return True
    word = token.text.lower().split()[-1]
    return _begins_word(token) and (word in _OPERANDS or word not in RESERVED | _WORDS)


def _begins_word(token: Token) -> bool:
    return token.text[:1].isalpha() or token.text[:1] == "_"


def _is_constant(
    inside: Sequence[Token], words: frozenset[str], token_types: tuple[TokenType, ...], end: TokenType
) -> bool:
    """Whether a word of these, and nothing else, stands there. Letters beyond ASCII are folded in Python alone:
    `ſecond`."""
    if len(inside) < 2 or inside[0].token_type not in token_types or inside[1].token_type is not end:
        return False
    return inside[0].text.isascii() and inside[0].text.lower() in words
