"""Random statements over the spanning table of `whole_lake`: typed expressions, so that most of them mean something,
from a seed.

Expressions are made whether DuckDB may answer them or not: what matters is that the answer is Postgres'.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "events": {
        "int8": ("id", "large"),
        "int4": ("shop", "qty"),
        "int2": ("small",),
        "numeric": ("price", "rate"),
        "text": ("kind", "note"),
        "bool": ("ok",),
        "date": ("day",),
        "timestamp": ("at",),
        "timestamptz": ("ts",),
        "time": ("clock",),
        "float8": ("f",),
        "uuid": ("u",),
    },
}

LITERALS: dict[str, tuple[str, ...]] = {
    "int8": ("0", "3", "2147483648", "-7", "'12'", "9007199254740993", "40000000000000"),
    "int4": ("0", "1", "5", "37", "-3", "100", "'5'", "2147483647"),
    "int2": ("0", "7", "-1", "'3'", "32768"),
    "numeric": (
        "0",
        "0.5",
        "1.50",
        "79.19",
        "'0.01'",
        "-9999.99",
        ".1",
        "1e2",
        "100.000",
        "9999999999999999999999999999",
    ),
    "text": ("''", "'buy'", "'a'", "'Ä'", "'{}'", "'?'", "'note 7'", "'it''s'", "'%s'", "'$1'", "'1'", "'日本'"),
    "bool": ("true", "false", "'t'", "'no'"),
    "date": ("'2026-02-03'", "date '2026-03-31'", "'1969-12-31'", "'2026-01-01'::date", "date '2024-02-29' + 1"),
    "timestamp": (
        "'2026-01-29 10:00:00'",
        ("timestamp '1969-12-31 23:59:59.999999'"),
        ("timestamp '2026-01-01' + interval '1 month'"),
    ),
    "timestamptz": (
        "'2026-03-29 01:30:00+00'",
        "'2026-02-01'",
        "timestamptz '2026-04-01 00:00+02'",
        "date '2026-03-01'",
    ),
    "time": ("'00:05:00'", "time '12:00:00.5'", "'23:59:59.999999'"),
    "float8": ("0", "0.1", "1e15", "'NaN'", "'-0'", "'Infinity'", "0.30000000000000004", "123456789012345.6", "1"),
    "uuid": ("'c4ca4238-a0b9-2382-0dcc-509a6f75849b'",),
}

_NUMBERS = ("int2", "int4", "int8", "numeric")
_ORDERED = ("int8", "int4", "int2", "numeric", "date", "timestamp", "timestamptz", "time", "text", "bool")
_PATTERNS = ("'b%'", "'%i%'", "'_uy'", "'%'", "''", "'%\\%%'", "'Ä%'", "'%e 7'", "'{%'")


class Generator:
    """Statements from one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._table = self._pick(tuple(COLUMNS))

    def statement(self) -> str:
        """One SELECT; its rows need no order, or are all of those there are."""
        shape = self._pick(
            (
                self._rows,
                self._rows,
                self._groups,
                self._groups,
                self._total,
                self._within,
                self._cte,
                self._union,
                self._window,
            )
        )
        return shape()

    def _pick(self, among: tuple[T, ...]) -> T:
        return self._chance.choice(among)

    def _maybe(self, share: float) -> bool:
        return self._chance.random() < share

    def _type(self) -> str:
        return self._pick(tuple(COLUMNS[self._table]))

    def _column(self, kind: str) -> str:
        return self._pick(COLUMNS[self._table][kind])

    def _literal(self, kind: str) -> str:
        return self._pick(LITERALS[kind])

    # Statements.

    def _where(self, share: float = 0.8) -> str:
        return f" where {self._condition(2)}" if self._maybe(share) else ""

    def _rows(self) -> str:
        word = "distinct " if self._maybe(0.15) else ""
        outputs = [
            self._key(1) if word else self._expression(self._type(), 2) for _ in range(self._chance.randint(1, 3))
        ]
        tail = " order by id, ts limit 7" if not word and self._maybe(0.4) else ""
        return f"select {word}{', '.join(outputs)} from {self._table}{self._where()}{tail}"

    def _groups(self) -> str:
        keys = [self._key(1) for _ in range(self._chance.randint(1, 2))]
        made = [self._aggregate() for _ in range(self._chance.randint(1, 3))]
        having = f" having {self._aggregate_condition()}" if self._maybe(0.25) else ""
        places = ", ".join(str(at + 1) for at in range(len(keys)))
        order = f" order by {places}" if self._maybe(0.3) else ""
        return f"select {', '.join(keys + made)} from {self._table}{self._where(0.6)} group by {places}{having}{order}"

    def _total(self) -> str:
        made = [self._aggregate() for _ in range(self._chance.randint(1, 4))]
        return f"select {', '.join(made)} from {self._table}{self._where()}"

    def _within(self) -> str:
        inner = (
            f"select {self._expression('int4', 1)} as x, {self._expression('text', 1)} as y, {self._aggregate()} "
            f"as n from {self._table}"
        )
        return f"select x, count(*), max(y) from ({inner}{self._where()} group by 1, 2) s group by x"

    def _cte(self) -> str:
        name = self._pick(("a", '"A"', "Rows", '"count"', "shops"))
        made = f"select id as i, {self._expression(self._type(), 1)} as v from {self._table}{self._where()}"
        return (
            f"with {name} as ({made}) select count(*), count(v), min(i) from "
            f"{self._pick((name, name.lower(), name.upper()))}"
        )

    def _union(self) -> str:
        kind, word = (
            self._pick(("int4", "int8", "text", "date", "timestamptz", "bool")),
            self._pick(("union", "union all")),
        )
        parts = [f"select {self._expression(kind, 1)} from {self._table}{self._where(1)}" for _ in range(2)]
        return f" {word} ".join(parts)

    def _key(self, depth: int) -> str:
        """What rows are told apart by. Of equal numbers with other digits Postgres keeps any, so numbers are columns
        here."""
        kind = self._type()
        return self._column(kind) if kind in ("numeric", "float8") else self._expression(kind, depth)

    def _window(self) -> str:
        call = self._pick(
            ("row_number()", "rank()", "dense_rank()", f"sum({self._column('int4')})", "count(*)", "lag(id)")
        )
        over = (
            f"partition by {self._column(self._pick(('int4', 'text', 'bool')))} order by "
            f"{self._pick(('id', 'ts, id', 'id desc'))}"
        )
        return f"select id, {call} over ({over}) from {self._table}{self._where()}"

    # Aggregates.

    def _aggregate(self) -> str:
        kind = self._pick(("int4", "int8", "int2", "numeric", "numeric", "text", "date", "timestamptz", "float8"))
        # Sums of floats depend on the order of rows, in Postgres too.
        name = self._pick(("sum", "avg", "min", "max", "count") if kind in _NUMBERS else ("min", "max", "count"))
        if self._maybe(0.15):
            return f"count(*) filter (where {self._condition(1)})" if self._maybe(0.5) else "count(*)"
        word = "distinct " if self._maybe(0.15) else ""
        tail = f" filter (where {self._condition(1)})" if self._maybe(0.15) else ""
        return f"{name}({word}{self._expression(kind, 1)}){tail}"

    def _aggregate_condition(self) -> str:
        return self._pick((f"count(*) > {self._literal('int4')}", f"{self._aggregate()} is not null", "sum(id) > 100"))

    # Expressions.

    def _expression(self, kind: str, depth: int) -> str:
        roll = self._chance.random()
        if kind not in COLUMNS[self._table]:
            return self._literal(kind)
        if depth <= 0 or roll < 0.35:
            return self._column(kind)
        if roll < 0.42:
            return self._literal(kind)
        if roll < 0.6:
            return self._common(kind, depth)
        plain: Callable[[int], str] = lambda _: self._column(kind)  # noqa: E731
        makers: dict[str, Callable[[int], str]] = {
            "int4": self._integer,
            "int8": self._integer,
            "numeric": self._numeric,
            "text": self._text,
            "bool": self._condition,
            "date": self._date,
            "timestamp": self._moment,
            "timestamptz": self._moment,
        }
        return makers.get(kind, plain)(depth - 1)

    def _common(self, kind: str, depth: int) -> str:
        one, two = self._expression(kind, depth - 1), self._expression(kind, depth - 1)
        return self._pick(
            (
                f"coalesce({one}, {two})",
                f"coalesce({one}, {self._literal(kind)})",
                f"nullif({one}, {two})",
                f"case when {self._condition(0)} then {one} else {two} end",
                f"case when {self._condition(0)} then {one} end",
                f"case {self._column(kind)} when {self._literal(kind)} then {one} else {self._literal(kind)} end",
                f"({one})",
                f"greatest({one}, {two})",
                f"({one})::{kind}",
            )
        )

    def _integer(self, depth: int) -> str:
        one, two = self._expression(self._pick(("int4", "int2")), depth), self._expression("int4", depth)
        return self._pick(
            (
                (f"({one} + {self._pick(('1', '2.5', two))})"),
                f"({one} - {two})",
                f"({one} * 2)",
                f"({one} / 7)",
                f"({one} % 5)",
                f"(- {one})",
                f"abs({one})",
                f"length({self._expression('text', depth)})",
                f"({one})::bigint",
                f"({one})::numeric",
                (
                    f"extract({self._pick(('year', 'month', 'dow', 'week', 'doy', 'hour'))} from "
                    f"{self._column('timestamptz')})"
                ),
                f"({self._column('date')} - {self._literal('date')})",
            )
        )

    def _numeric(self, depth: int) -> str:
        one, two = self._expression("numeric", depth), self._expression(self._pick(("numeric", "int4")), depth)
        return self._pick(
            (
                f"({one} + {two})",
                f"({one} - {two})",
                f"({one} * {two})",
                f"({one} * 1.5)",
                f"(1 - {one})",
                f"round({one}, 1)",
                f"round({one})",
                f"abs({one})",
                f"(- {one})",
                f"({one})::numeric",
                f"({one})::numeric(10, 1)",
                f"({one} / 3)",
                f"({one})::text",
            )
        )

    def _text(self, depth: int) -> str:
        one, two = self._expression("text", depth), self._expression("text", depth)
        return self._pick(
            (
                f"({one} || {two})",
                f"({one} || {self._literal('text')})",
                f"substring({one} from 2)",
                f"substring({one}, 1, 2)",
                f"substring({one} from '.')",
                f"left({one}, 2)",
                f"right({one}, 2)",
                f"upper({one})",
                f"lower({one})",
                f"{self._column('int4')}::text",
                f"({one})::text",
                f"replace({one}, 'a', 'b')",
                f"left({one}, -1)",
            )
        )

    def _date(self, depth: int) -> str:
        one = self._expression("date", depth)
        return self._pick(
            (
                f"({one} + 1)",
                f"({one} - 3)",
                f"({self._column('timestamp')})::date",
                f"({self._column('timestamptz')})::date",
            )
        )

    def _moment(self, depth: int) -> str:
        kind = self._pick(("timestamp", "timestamptz", "date"))
        unit = self._pick(("day", "month", "hour", "week", "year", "quarter", "minute"))
        return self._pick(
            (f"date_trunc('{unit}', {self._column(kind)})", f"({self._column(kind)})::timestamp", self._column(kind))
        )

    # Conditions.

    def _condition(self, depth: int) -> str:
        if depth > 0 and self._maybe(0.4):
            one, two = self._condition(depth - 1), self._condition(depth - 1)
            return self._pick(
                (
                    f"({one} and {two})",
                    f"({one} or {two})",
                    f"(not {one})",
                    f"(({one}) is not true)",
                    f"(({one}) is true)",
                )
            )
        kind = self._pick(tuple(kind for kind in (*_ORDERED, "float8") if kind in COLUMNS[self._table]))
        one, two = self._expression(kind, depth - 1), self._literal(kind)
        sign = self._pick(("=", "<>", "<", "<=", ">", ">="))
        return self._pick(
            (
                f"({one} {sign} {two})",
                f"({two} {sign} {one})",
                (f"({one} {sign} {self._expression(kind, depth - 1)})"),
                f"({one} is null)",
                f"({one} is not null)",
                f"({one} in ({two}, {self._literal(kind)}, {self._literal(kind)}))",
                f"({one} not in ({two}, null))",
                f"({one} between {two} and {self._literal(kind)})",
                f"({one} is distinct from {two})",
                f"({self._column('text')} like {self._pick(_PATTERNS)})",
                f"({self._column('text')} ilike {self._pick(_PATTERNS)})",
                f"({self._column('bool')})",
            )
        )
