"""The closed set of statements that `postgres_fdw` of Postgres 14 to 18 sends, and plain SELECT; nothing else is ever
run.

Pure: text in, statements out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thermocline.core.names import TableName, parse_table_name
from thermocline.errors import StatementRefused, ThermoclineError
from thermocline.runtime.memory.bounded_cache import cached_by_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SetParameter:
    """SET name = value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowParameter:
    """SHOW name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Begins a transaction."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Ends a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Ends a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackTo:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareCursor:
    name: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """FETCH n FROM name; `count` is `None` for ALL."""

    name: str
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindCursor:
    """MOVE BACKWARD ALL IN name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCursor:
    """CLOSE name; `None` for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deallocate:
    """DEALLOCATE or DISCARD."""

    tag: str
    everything: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSize:
    """ANALYZE asks for the pages of a table."""

    table: TableName
    block_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationInfo:
    """ANALYZE asks for pages, rows and kind of a table: Postgres 16 and 17 for two of them, 19 for all."""

    table: TableName
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """ANALYZE asks for a share of a table's rows."""

    sql: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOut:
    """COPY (SELECT …) TO STDOUT, in the text format."""

    sql: str


Statement = (
    SetParameter
    | ShowParameter
    | Begin
    | Commit
    | Rollback
    | Savepoint
    | Release
    | RollbackTo
    | DeclareCursor
    | Fetch
    | RewindCursor
    | CloseCursor
    | Deallocate
    | Explain
    | RelationSize
    | RelationInfo
    | Select
    | CopyOut
)

_NAME = r'([a-z_][a-z0-9_$]*|"(?:[^"]|"")+")'
_LITERAL = r"E?'((?:[^']|'')*)'"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE | re.DOTALL)


_SET = _compiled(rf"set (?:session |local )?(transaction_read_only|time zone|{_NAME[1:-1]})(?:\s*=\s*| to |\s+)(.+)")
_SET_TRANSACTION = _compiled(r"set (?:session characteristics as )?transaction (.+)")
_SHOW = _compiled(r"show (.+)")
_BEGIN = _compiled(
    r"(begin|start transaction)(?: work| transaction)?"
    r"(?:,?\s*(?:isolation level (?:serializable|repeatable read|read committed|read uncommitted)"
    r"|read only|read write|(?:not )?deferrable))*"
)
_COMMIT = _compiled(r"(?:commit|end)(?: work| transaction)?")
_ROLLBACK = _compiled(r"(?:rollback|abort)(?: work| transaction)?")
_ROLLBACK_TO = _compiled(rf"rollback(?: work| transaction)? to (?:savepoint )?{_NAME}")
_SAVEPOINT = _compiled(rf"savepoint {_NAME}")
_RELEASE = _compiled(rf"release (?:savepoint )?{_NAME}")
_DECLARE = _compiled(rf"declare {_NAME} (?:no scroll )?cursor (?:without hold )?for (.+)")
_FETCH = _compiled(rf"fetch (?:forward )?(\d+|all)(?: from| in) {_NAME}")
_MOVE = _compiled(rf"move backward all (?:in|from) {_NAME}")
_CLOSE = _compiled(rf"close {_NAME}")
_DEALLOCATE = _compiled(rf"deallocate (?:prepare )?{_NAME}")
_DISCARD = _compiled(r"discard (?:all|plans|sequences|temp|temporary)")
_EXPLAIN = _compiled(r"explain (.+)")
_SIZE = _compiled(rf"select pg_catalog\.pg_relation_size\({_LITERAL}::pg_catalog\.regclass\)\s*/\s*(\d+)")
_INFO = _compiled(
    "".join(
        [
            r"select ((?:relpages, )?reltuples(?:, relkind)?) from pg_catalog\.pg_class where oid = ",
            _LITERAL,
            r"::pg_catalog\.regclass",
        ]
    )
)
_RANDOM = _compiled(r"(.+)(?<!\s) where pg_catalog\.random\(\) < (\d++(?:\.\d++)?|\.\d++)")
_TABLESAMPLE = _compiled(r"(.+)(?<!\s) tablesample (?:system|bernoulli)\((\d++(?:\.\d++)?|\.\d++)\)")
_COPY = _compiled(r"copy\s*\((\s*select\b.+)\)\s*to stdout(?: \(format text\))?")
_SELECT = _compiled(r"select\b.+")


def split_statements(text: str) -> tuple[str, ...]:
    """The statements of a text, cut at the semicolons that stand outside quotes and comments."""
    pieces: list[str] = []
    begin = at = 0
    while at < len(text):
        skipped = _SKIP.match(text, at)
        if skipped:
            at = skipped.end()
        elif text[at] == ";":
            pieces.append(text[begin:at])
            at += 1
            begin = at
        else:
            at += 1
    pieces.append(text[begin:])
    return tuple(piece.strip() for piece in pieces if piece.strip())


_STATEMENTS_BYTES = 8 << 20
# An unterminated comment or dollar quote extends to the end of the text: searched again from each position in it, it
# takes quadratic time.
_SKIP = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?(?:\*/|\Z)|\$((?:[^\W\d]\w*)?)\$.*?(?:\$\1\$|\Z)|[A-Za-z_][\w$]*""",
    re.DOTALL,
)


@cached_by_text(max_bytes=_STATEMENTS_BYTES, bytes_per_character=8)
def parse_statement(text: str) -> Statement:
    """Parse one statement; refuse one that is not in the closed set."""
    for pattern, build in _RULES:
        found = pattern.fullmatch(text)
        if found:
            return build(found)
    raise StatementRefused("The gateway does not run this statement.")


def parse_sample(sql: str) -> Sample | None:
    """The share that ANALYZE samples, and the statement without its sampling clause."""
    for pattern, whole in ((_RANDOM, 1.0), (_TABLESAMPLE, 100.0)):
        found = pattern.fullmatch(sql.strip())
        if found:
            return Sample(sql=found[1], share=min(1.0, float(found[2]) / whole))
    return None


def _name(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


def _relation(literal: str) -> TableName:
    try:
        return parse_table_name(literal.replace("''", "'").replace("\\\\", "\\"))
    except ThermoclineError as bad:
        raise StatementRefused(bad.message) from bad


def _set(found: re.Match[str]) -> Statement:
    return SetParameter(name=re.sub(r"\s+", " ", _name(found[1])), value=found[2].strip().strip("'"))


def _fetch(found: re.Match[str]) -> Statement:
    return Fetch(name=_name(found[2]), count=None if found[1].lower() == "all" else int(found[1]))


def _close(found: re.Match[str]) -> Statement:
    return CloseCursor(name=None if found[1].lower() == "all" else _name(found[1]))


def _deallocate(found: re.Match[str]) -> Statement:
    everything = found[1].lower() == "all"
    return Deallocate(tag="DEALLOCATE ALL" if everything else "DEALLOCATE", everything=everything)


_RULES = (
    (_SIZE, lambda m: RelationSize(table=_relation(m[1]), block_bytes=int(m[2]))),
    (_INFO, lambda m: RelationInfo(table=_relation(m[2]), columns=tuple(re.split(r",\s*", m[1].lower())))),
    (_SELECT, lambda m: Select(sql=m[0])),
    (_FETCH, _fetch),
    (_COPY, lambda m: CopyOut(sql=m[1].strip())),
    (_DECLARE, lambda m: DeclareCursor(name=_name(m[1]), sql=m[2])),
    (_CLOSE, _close),
    (_BEGIN, lambda m: Begin(tag="BEGIN" if m[1].lower() == "begin" else "START TRANSACTION")),
    (_COMMIT, lambda m: Commit()),
    (_ROLLBACK_TO, lambda m: RollbackTo(name=_name(m[1]))),
    (_ROLLBACK, lambda m: Rollback()),
    (_SAVEPOINT, lambda m: Savepoint(name=_name(m[1]))),
    (_RELEASE, lambda m: Release(name=_name(m[1]))),
    (_MOVE, lambda m: RewindCursor(name=_name(m[1]))),
    (_SET_TRANSACTION, lambda m: SetParameter(name="transaction", value=m[1])),
    (_SET, _set),
    (_SHOW, lambda m: ShowParameter(name=m[1].strip().lower())),
    (_DEALLOCATE, _deallocate),
    (_DISCARD, lambda m: Deallocate(tag="DISCARD ALL", everything=True)),
    (_EXPLAIN, lambda m: Explain(sql=m[1])),
)
