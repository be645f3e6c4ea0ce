"""Conditions for queries of a table: point, range, NULL, IN and LIKE on every column, with values sampled from the
table.

The values are those that are there, their extremes, what lies just outside the extremes and between them, and each
type's awkward ones. A condition is text in Postgres' dialect with constants only, so that whatever can be pushed down
is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any, Literal

import psycopg
from psycopg import sql

Kind = Literal["point", "range", "null", "in", "like"]
KINDS: tuple[Kind, ...] = ("point", "range", "null", "in", "like")

_INTEGERS = frozenset({"int2", "int4", "int8"})
_FLOATS = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "citext"})
_MOMENTS = {"date": "1 day", "timestamp": "1 microsecond", "timestamptz": "1 microsecond"}
_UNORDERED = frozenset(
    {"hstore", "json", "xml", "jsonpath", "point", "line", "lseg", "box", "path", "polygon", "circle", "xid", "cid"}
)
_LONGEST = 8000
"""Longer values are not drawn: a condition is printed when it fails."""

_COLUMNS = """
select a.attname, format_type(a.atttypid, case when t.typname in ('bit', 'bpchar') then a.atttypmod end),
       coalesce(b.typname, t.typname), coalesce(e.typname, ''), t.typtype = 'd'
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  left join pg_type b on b.oid = t.typbasetype
  left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
 where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
 order by a.attnum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column and values drawn from it, in Postgres' text form: the lowest and highest, some that are there, some that
    need not be."""

    name: str
    pg_type: str
    base: str
    lowest: str | None
    highest: str | None
    present: tuple[str, ...]
    around: tuple[str, ...]

    @property
    def quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    def constant(self, value: str) -> str:
        """The value as a constant of the column's type; numbers also in their bare form, which compares across
        types."""
        if self.base in _INTEGERS:
            return f"({value})"
        return f"{literal(value)}::{self.pg_type}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column, or on this one and another."""

    kind: Kind
    column: str
    text: str


def literal(value: str) -> str:
    """A string constant that reads the same whatever `standard_conforming_strings` is."""
    doubled = value.replace("'", "''")
    return f"E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in value else f"'{doubled}'"


def read_columns(conn: psycopg.Connection[Any], table: str, seed: int) -> tuple[Column, ...]:
    """The table's columns with values drawn from its rows; the same rows and seed give the same values."""
    found = conn.execute(_COLUMNS.encode(), [table]).fetchall()
    asked = sql.SQL(" union all ").join(
        _draw(position, table, name, base, element, seed) for position, (name, _, base, element, _) in enumerate(found)
    )
    drawn = {row[0]: row[1:] for row in conn.execute(asked).fetchall()}
    columns = []
    for position, (name, pg_type, base, _, is_domain) in enumerate(found):
        lowest, highest, present, moments = drawn[position]
        around = (
            ()
            if is_domain
            else (*(value for value in moments if value is not None), *_around(base, lowest, highest, present))
        )
        columns.append(
            Column(
                name=name,
                pg_type=pg_type,
                base=base,
                lowest=lowest,
                highest=highest,
                present=tuple(present),
                around=tuple(around),
            )
        )
    return tuple(columns)


def _draw(position: int, table: str, name: str, base: str, element: str, seed: int) -> sql.Composed:
    """One row: the column's position, its lowest and highest value, two others, and for moments their neighbours."""
    column, source = sql.Identifier(name), sql.SQL(table)
    filled = sql.SQL("from {} where {} is not null and octet_length({}::text) < {}").format(
        source, column, column, _LONGEST
    )
    present = sql.SQL("array(select {}::text {} order by hashtextextended({}::text, {}) limit 2)").format(
        column, filled, column, seed
    )
    if base in _UNORDERED or element in _UNORDERED:
        return sql.SQL("select {}, null::text, null::text, {}, array[]::text[]").format(position, present)
    ends = [
        sql.SQL("(select {}::text {} order by {} {} limit 1)").format(column, filled, column, sql.SQL(way))
        for way in ("asc", "desc")
    ]
    if base not in _MOMENTS:
        return sql.SQL("select {}, {}, {}, {}, array[]::text[]").format(position, *ends, present)
    # Postgres computes the neighbours of a datetime: it supports years BC and the ends of its range.
    step = sql.SQL("interval {}").format(_MOMENTS[base])
    kind = sql.SQL(base)
    neighbours = sql.SQL(
        "(select array[(lo - {step})::{kind}::text, (hi + {step})::{kind}::text, (lo + (hi - lo) / 2)::{kind}::text]"
        " from (select min({column}), max({column}) from {source}"
        " where {column} between '4000-01-01 BC'::{kind} and '200000-01-01'::{kind}) e (lo, hi))"
    ).format(step=step, kind=kind, column=column, source=source)
    return sql.SQL("select {}, {}, {}, {}, {}").format(position, *ends, present, neighbours)


def _around(base: str, lowest: str | None, highest: str | None, present: Sequence[str]) -> Iterator[str]:
    """Values near those that are present."""
    if base in _INTEGERS:
        low, high = int(lowest or 0), int(highest or 0)
        yield from map(str, (low - 1, high + 1, (low + high) // 2))
    elif base == "numeric":
        yield from _around_numbers(lowest, highest)
    elif base in _FLOATS:
        yield from ("NaN", "Infinity", "-Infinity", "0", "-0")
        for value in map(float, present):
            if math.isfinite(value):
                yield from (repr(value), repr(value / 2 + 1))
    elif base in _TEXTS:
        yield from _around_texts([value for value in (lowest, highest, *present) if value is not None])
    elif base == "uuid":
        yield from ("00000000-0000-0000-0000-000000000000", "80000000-0000-0000-0000-000000000000", "f" * 32)
    elif base == "bytea":
        yield from ("\\x", "\\x00", "\\xff", *(value + "00" for value in present))
    elif base == "bool":
        yield from ("true", "false")
    elif base == "time":
        yield from ("00:00:00", "12:00:00.000001", "23:59:59.999999")


def _around_numbers(lowest: str | None, highest: str | None) -> Iterator[str]:
    """Zero, the extremes plus and minus one in the last digit, and half a digit further, which the column's scale
    excludes."""
    yield from ("0", "0.000000000000000001")
    for value in (lowest, highest):
        if value is None or not Decimal(value).is_finite():
            continue
        whole, _, places = value.partition(".")
        digits = int(whole + places)
        for beside in (digits - 1, digits + 1, -digits):
            yield format(Decimal(f"{beside}E-{len(places)}"), "f")
        yield value + ("5" if places else ".5")


def _around_texts(values: Sequence[str]) -> Iterator[str]:
    yield from ("", "\U0010ffff", "~")
    for value in values:
        yield from (value + "a", value + "\U0010ffff", value[:-1], value[: len(value) // 2], value.upper())


def plan_conditions(columns: Sequence[Column], turn: int, *, each: int | None = None) -> tuple[Condition, ...]:
    """Conditions on every column, then some on two columns together; the same turn gives the same ones.

    By default each column gets one kind of condition, another in each turn, so that five turns cover all kinds.
    """
    planned: list[Condition] = []
    for position, column in enumerate(columns):
        random = Random(f"{turn} {column.name}")
        ways = KINDS if each is not None else (KINDS[(turn + position) % len(KINDS)],)
        for kind in ways:
            made = list(_MAKERS[kind](column, random)) or list(_nulls(column, random))
            planned += [Condition(kind, column.name, text) for text in random.sample(made, min(each or 1, len(made)))]
    random = Random(turn)
    joints = ("({}) and ({})", "({}) or ({})", "not (({}) and ({}))")
    for joint in joints if each is not None else (random.choice(joints),):
        first, second = random.choice(planned), random.choice(planned)
        planned.append(Condition(first.kind, first.column, joint.format(first.text, second.text)))
    return tuple(planned)


def _values(column: Column) -> list[str]:
    ends = [value for value in (column.lowest, column.highest) if value is not None]
    return list(dict.fromkeys([*ends, *column.present, *column.around]))


def _points(column: Column, random: Random) -> Iterator[str]:
    if column.base in _UNORDERED:
        return
    for value in _values(column):
        for op in ("=", "=", "<>", "is distinct from"):
            yield f"{column.quoted} {op} {column.constant(value)}"
    if column.base == "bool":
        yield from (column.quoted, f"not {column.quoted}", f"{column.quoted} is not true")


def _ranges(column: Column, random: Random) -> Iterator[str]:
    if column.base in _UNORDERED:
        return
    values = _values(column)
    for value in values:
        for op in ("<", "<=", ">", ">="):
            yield f"{column.quoted} {op} {column.constant(value)}"
    for _ in range(3 if values else 0):
        low, high = random.choice(values), random.choice(values)
        yield f"{column.quoted} between {column.constant(low)} and {column.constant(high)}"


def _nulls(column: Column, random: Random) -> Iterator[str]:
    yield from (f"{column.quoted} is null", f"{column.quoted} is not null")


def _lists(column: Column, random: Random) -> Iterator[str]:
    values = _values(column)
    if column.base in _UNORDERED or not values:
        return
    for size in (1, 2, 5):
        some = random.sample(values, min(size, len(values)))
        listed = ", ".join(column.constant(value) for value in some)
        yield from (
            f"{column.quoted} in ({listed})",
            f"{column.quoted} not in ({listed})",
            f"{column.quoted} in ({listed}, null)",
        )


def _patterns(column: Column, random: Random) -> Iterator[str]:
    if column.base not in _TEXTS:
        return
    for value in dict.fromkeys([*column.present, *(end for end in (column.lowest, column.highest) if end is not None)]):
        half = max(1, len(value) // 2)
        for pattern in (
            escape(value),
            escape(value[:half]) + "%",
            "%" + escape(value[half:]),
            "_" + escape(value[1:]),
            "%" + escape(value[half - 1 : half + 2]) + "%",
        ):
            yield from (f"{column.quoted} like {literal(pattern)}", f"{column.quoted} not like {literal(pattern)}")


def escape(value: str) -> str:
    """The value as a LIKE pattern that matches only itself."""
    return value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


_MAKERS: dict[Kind, Callable[[Column, Random], Iterator[str]]] = {
    "point": _points,
    "range": _ranges,
    "null": _nulls,
    "in": _lists,
    "like": _patterns,
}


def assert_same_answers(
    conn: psycopg.Connection[Any], conditions: Sequence[Condition], *, ours: str, twin: str, channel: str, turn: int
) -> None:
    """Assert that all rows, and the rows that each condition selects, have the same text on both sides; in one
    statement."""
    texts = ["true", *(condition.text for condition in conditions)]
    differing = conn.execute(f"({_sums(ours, texts)}) except ({_sums(twin, texts)}) order by 1".encode()).fetchall()
    if not differing:
        return
    condition = texts[differing[0][0]]
    sides = [f"select e::text from {table} e where {condition}" for table in (twin, ours)]
    missing = conn.execute(f"{sides[0]} except all {sides[1]}".encode()).fetchall()
    surplus = conn.execute(f"{sides[1]} except all {sides[0]}".encode()).fetchall()
    raise AssertionError(
        f"{len(differing)} of {len(texts)} conditions find other rows through {channel} (turn {turn}), first: "
        f"where {shorten(condition)}\n"
        f"{render_differences(missing, surplus)}"
    )


def _sums(table: str, texts: Sequence[str]) -> str:
    return " union all ".join(
        f"select {number} n, count(*), sum(hashtextextended(e::text, 0)) from {table} e where {text}"
        for number, text in enumerate(texts)
    )


def render_differences(missing: Sequence[Any], surplus: Sequence[Any]) -> str:
    """Some of the rows that are missing and of those that are too many, each of bounded length."""
    lines = []
    for name, rows in (("missing", missing), ("surplus", surplus)):
        lines.append(f"{name}: {len(rows)} rows" + "".join(f"\n  {shorten(str(row))}" for row in rows[:3]))
    return "\n".join(lines)


def shorten(text: str) -> str:
    """The text with its middle left out where it is long."""
    return text if len(text) <= 600 else f"{text[:300]} … {len(text)} characters … {text[-100:]}"
