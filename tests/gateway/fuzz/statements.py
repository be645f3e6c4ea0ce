"""Whole statements: what one seed and number make, with the settings they run under."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.gateway.fuzz.catalog import Catalog, Signature
from tests.gateway.fuzz.expressions import CORE_AGGREGATES, FAVOURED_FUNCTIONS, Breadth, Column, Expressions, sql_name
from tests.gateway.fuzz.pieces import Part, Piece, clause, joined, order_clause, text

EVENTS = (
    *(("id", "int8"), ("ts", "timestamptz"), ("day", "date"), ("at", "timestamp"), ("clock", "time")),
    *(("events", "int4"), ('"order"', "int2"), ("price", "numeric"), ("rate", "numeric"), ("wide", "numeric")),
    *(("free", "numeric"), ("large", "int8"), ("kind", "text"), ("c_kind", "text"), ("note", "varchar")),
    *(("fixed", "bpchar"), ('"user"', "text"), ('"a ""b"" c"', "int4"), ('"größe"', "float8"), ('"real"', "float4")),
    *(("ok", "bool"), ("u", "uuid"), ("raw", "bytea"), ("span", "interval"), ("tags", "_text"), ("nums", "_int4")),
    *(("doc", "jsonb"), ("net", "inet"), ("clockz", "timetz")),
    *(("far", "date"), ("far_at", "timestamp"), ("late", "time")),
)
DIMS = (("k", "int4"), ("label", "text"), ("w", "numeric"), ('"order"', "int4"), ("opened", "date"))
HELD = frozenset({"free", "fixed", "span", "tags", "nums", "doc", "net", "clockz"})
"""Columns that the lake holds as text: DuckDB answers no statement that reads one."""
FAR = frozenset({"far", "far_at", "late"})
"""Columns with values in the heap that DuckDB does not hold."""
PLAIN: Mapping[str, str] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}
OTHERS: Mapping[str, tuple[str, ...]] = {
    "TimeZone": ("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "GMT", "<+03>-3", "Pacific/Apia"),
    "DateStyle": ("ISO, DMY", "SQL, DMY", "German", "Postgres, MDY", "ISO, YMD"),
    "IntervalStyle": ("iso_8601", "sql_standard", "postgres_verbose"),
    "extra_float_digits": ("0", "-5", "3"),
    "bytea_output": ("escape",),
    "client_encoding": ("LATIN1", "SQL_ASCII", "WIN1252", "EUC_JP"),
}
PATHS = (*("{}",) * 8, "{}, pg_catalog", "pg_catalog, {}", "shadow, {}", "{}, shadow, pg_catalog")
"""Search paths; the braces stand for the schemas of the table."""
BREADTHS: Mapping[Breadth, int] = {"core": 70, "favoured": 17, "wide": 13}
STATEMENTS_PER_SESSION = 25
"""So many statements in a row have the same settings."""


Channel = Literal["simple", "extended", "prepared", "transaction", "cursor", "copy", "execute"]
"""How a statement is sent. `prepared`: described once and run twice. `transaction`: at REPEATABLE READ. `cursor`:
fetched in two parts. `execute`: prepared by SQL."""
CHANNELS: Mapping[Channel, int] = {
    "simple": 40,
    "extended": 30,
    "prepared": 12,
    "transaction": 8,
    "cursor": 4,
    "copy": 3,
    "execute": 3,
}
WITH_PARAMETERS = ("extended", "prepared", "transaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A statement with the settings and the result format that it is run under."""

    number: int
    statement: Piece
    settings: Mapping[str, str]
    path: str
    channel: Channel
    is_binary: bool


def draw_settings(seed: int, session: int) -> tuple[dict[str, str], str]:
    """The settings and search path of one session; three of four have plain ones."""
    chance = random.Random(f"{seed}/session {session}")
    settings = dict(PLAIN)
    if chance.random() < 0.25:
        for name in chance.sample(sorted(OTHERS), chance.randint(1, 3)):
            settings[name] = chance.choice(OTHERS[name])
    return settings, chance.choice(PATHS)


def draw_case(seed: int, number: int, catalog: Catalog, binary_form: Callable[[str, str], bytes | None]) -> Case:
    """The statement of this number; the same for every run with the seed on the same major version of Postgres."""
    chance = random.Random(f"{seed}/{number}")
    settings, path = draw_settings(seed, number // STATEMENTS_PER_SESSION)
    breadth = chance.choices(tuple(BREADTHS), tuple(BREADTHS.values()))[0]
    channel = chance.choices(tuple(CHANNELS), tuple(CHANNELS.values()))[0]
    expressions = Expressions(chance, catalog, binary_form, breadth=breadth, parameters=channel in WITH_PARAMETERS)
    statement = Statements(expressions).make()
    return Case(
        number=number,
        statement=statement,
        settings=settings,
        path=path,
        channel=channel,
        is_binary=channel in WITH_PARAMETERS and chance.random() < 0.5,
    )


class Statements:
    """Statements over the odd table and the small one beside it."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._chance = expressions.chance
        self._pick, self._maybe = expressions.pick, expressions.maybe
        self._core = expressions.core
        self._aggregates = CORE_AGGREGATES if self._core else FAVOURED_FUNCTIONS
        self._aliases = 0
        expressions.subquery = self._scalar

    def make(self) -> Piece:
        core: tuple[Callable[[], Piece], ...] = (
            *(
                self._rows,
                self._rows,
                self._groups,
                self._groups,
                self._groups,
                self._total,
                self._total,
                self._distinct,
            ),
            *(self._within, self._cte, self._set_operation, self._window, self._join, self._join_groups),
        )
        shapes = (
            core
            if self._core
            else (
                *(
                    self._rows,
                    self._rows,
                    self._rows,
                    self._groups,
                    self._groups,
                    self._groups,
                    self._total,
                    self._total,
                ),
                *(self._distinct, self._within, self._cte, self._cte, self._set_operation, self._window, self._join),
                *(self._join_groups, self._odd),
            )
        )
        return self._pick(shapes)()

    def _columns(self, prefix: str = "") -> list[Column]:
        """The columns of the table; unless wide, those that DuckDB can read."""
        return [
            Column(sql=f"{prefix}{name}", kind=kind)
            for name, kind in EVENTS
            if self._expressions.wide or name not in (HELD | FAR if self._core else HELD)
        ]

    def _source(self) -> tuple[str, list[Column]]:
        """The table as it is written in FROM, and its columns."""
        roll = self._chance.random()
        if roll < 0.55 or (self._core and roll < 0.8):
            return "events", self._columns(self._pick(("", "", "events.")))
        if roll < 0.6:
            return 'only "events"', self._columns()
        alias = self._pick(("e", "E", '"E"', "x") if self._core else ('"select"', "id", "kind", "x", "AS Ähm"))
        name = alias.removeprefix("AS ")
        return f"events {alias}", self._columns(f"{name}." if self._maybe(0.7) else "")

    def _where(self, columns: Sequence[Column], share: float = 0.75, depth: int = 2) -> Piece:
        if not self._maybe(share):
            return text("")
        return clause(" where ", self._expressions.condition(columns, depth))

    def _output(self, piece: Piece) -> Piece:
        if not self._maybe(0.15):
            return piece
        name = self._pick(("x", '"X"', '"a b"', "id", "events", '"select"', "größe", '"?column?"', "count"))
        return text(piece, clause(f" {self._pick(('as ', 'as ', ''))}{name}" if name != "count" else " as count"))

    def _outputs(self, columns: Sequence[Column], *, least: int = 1, most: int = 3, depth: int = 2) -> Piece:
        made = [
            self._output(self._expressions.make(columns, self._expressions.type(), depth))
            for _ in range(self._chance.randint(least, most))
        ]
        return joined(made)

    def _tail(self, columns: Sequence[Column], *, is_inner: bool = False) -> Piece:
        """ORDER BY and LIMIT over the rows of one table."""
        if self._maybe(0.5):
            return text("")
        keys = [
            clause(self._expressions.make(columns, self._expressions.type(comparable=True), 1), self._direction(), ", ")
            for _ in range(self._chance.randint(0, 2))
        ]
        unique = next((column.sql for column in columns if column.sql.endswith("id")), columns[0].sql)
        parts: tuple[Part, ...] = (" order by ", *keys, f"{unique} {self._pick(('', 'desc'))}", self._limit())
        return clause(*parts) if is_inner else order_clause(*parts)

    def _direction(self) -> str:
        found = ("", "", " desc", " asc nulls first", " desc nulls last", " nulls first", " using >")
        return self._pick(found[:-1] if self._core else found)

    def _limit(self) -> Piece:
        if self._maybe(0.5):
            return text("")
        return clause(
            self._pick(
                (
                    *(" limit 5", " limit 5 offset 3", " offset 90", " limit 0", " limit all", " limit null"),
                    *(
                        " fetch first 3 rows only",
                        " fetch first 2 rows with ties",
                        " limit '4'",
                        " limit 2.5",
                        " limit -1",
                    ),
                )
            )
        )

    # Statements.

    def _rows(self) -> Piece:
        source, columns = self._source()
        if self._maybe(0.08):
            outputs: Piece = text(self._pick(("*", "events.*", "*, id", "events", "count(*)")))
        else:
            outputs = self._outputs(columns)
        return text("select ", outputs, f" from {source}", self._where(columns), self._tail(columns))

    def _distinct(self) -> Piece:
        source, columns = self._source()
        if self._maybe(0.25):
            key = self._expressions.make(columns, self._expressions.type(comparable=True), 1)
            rest = f", {columns[0].sql}"
            head = text("select distinct on (", key, ") ", key, f"{rest} from {source}")
            return text(head, self._where(columns), order_clause(" order by ", key, rest))
        count = self._chance.randint(1, 3)
        outputs = text(*self._outputs(columns, least=count, most=count, depth=1).parts)
        places = ", ".join(str(at + 1) for at in range(count))
        order = order_clause(f" order by {places}", self._direction()) if self._maybe(0.4) else text("")
        return text("select distinct ", outputs, f" from {source}", self._where(columns), order)

    def _groups(self) -> Piece:
        source, columns = self._source()
        keys = [
            self._expressions.make(columns, self._expressions.type(comparable=True), self._pick((0, 0, 1)))
            for _ in range(self._chance.randint(1, 2))
        ]
        made = [self._output(self._aggregate(columns)) for _ in range(self._chance.randint(1, 3))]
        places = ", ".join(str(at + 1) for at in range(len(keys)))
        by: Part = f" group by {places}" if self._maybe(0.7) else text(" group by ", joined(keys))
        if has_sets := self._maybe(0.06):
            by = f" group by {self._pick(('rollup', 'cube', 'grouping sets'))} ({places})"
        having = clause(" having ", self._having(columns)) if self._maybe(0.25) else text("")
        order = text("")
        if self._maybe(0.35):
            order = order_clause(f" order by {places}{self._direction()}", self._limit())
        if has_sets:  # the keys of a total are NULL, and so may be those of a group
            order = text("")
        outputs = text(joined(keys), ", ", joined(made))
        return text("select ", outputs, f" from {source}", self._where(columns, 0.5), by, having, order)

    def _total(self) -> Piece:
        source, columns = self._source()
        made = [self._output(self._aggregate(columns)) for _ in range(self._chance.randint(1, 4))]
        having = clause(" having ", self._having(columns)) if self._maybe(0.1) else text("")
        return text("select ", joined(made), f" from {source}", self._where(columns), having)

    def _within(self) -> Piece:
        source, columns = self._source()
        kinds = [self._expressions.type() for _ in range(2)]
        inner = joined([text(self._expressions.make(columns, kind, 2), f" as c{at}") for at, kind in enumerate(kinds)])
        outside = [Column(sql=f"s.c{at}", kind=kind) for at, kind in enumerate(kinds)]
        nested = text(
            "(select ", inner, f" from {source}", self._where(columns), self._tail(columns, is_inner=True), ") s"
        )
        return text(
            "select ", joined([self._aggregate(outside) for _ in range(2)]), " from ", nested, self._where(outside)
        )

    def _cte(self) -> Piece:
        source, columns = self._source()
        names = ("a", '"A"', "Rows", '"count"', "dims", "events", '"Events"', '"größe"')
        name = self._pick(names[:5] if self._core else names)
        kinds = [self._expressions.type() for _ in range(2)]
        inner = joined([text(self._expressions.make(columns, kind, 2), f" as c{at}") for at, kind in enumerate(kinds)])
        outside = [Column(sql=f"c{at}", kind=kind) for at, kind in enumerate(kinds)]
        word = "" if self._core else self._pick(("", "", "", " materialized", " not materialized"))
        head = text(f"with {name} as{word} (select ", inner, f" from {source}", self._where(columns), ") ")
        used = name if self._core else self._pick((name, name, name, name.lower(), name.upper(), f"{name} as events"))
        if self._maybe(0.5):
            return text(head, "select ", joined([self._aggregate(outside) for _ in range(2)]), f" from {used}")
        outputs = joined([self._expressions.make(outside, self._expressions.type(), 1) for _ in range(2)])
        return text(head, "select ", outputs, f" from {used}", self._where(outside))

    def _set_operation(self) -> Piece:
        kind = self._expressions.type(comparable=True)
        words = ("union", "union all", "union all", "except", "except all", "intersect", "intersect all")
        word = self._pick(words[:3] if self._core else words)
        parts = []
        for _ in range(2):
            source, columns = self._source()
            made = self._expressions.make(columns, kind, self._pick((0, 1)))
            parts.append(text("select ", made, f" from {source}", self._where(columns)))
        order = order_clause(" order by 1", self._direction()) if self._maybe(0.4) else text("")
        return text(parts[0], f" {word} ", parts[1], order)

    def _window(self) -> Piece:
        source, columns = self._source()
        keys = [column for column in columns if column.kind in ("int2", "int4", "text", "bool", "numeric", "date")]
        partition = clause("partition by ", joined([text(self._pick(keys).sql)]), " ") if self._maybe(0.6) else text("")
        order = clause("order by ", text(self._pick(keys).sql), self._direction(), f", {columns[0].sql}")
        frame = clause(
            "" if self._core else self._pick(
                ("", "", "", " rows between 1 preceding and current row", " range unbounded preceding",
                 " groups between 1 preceding and 1 following exclude ties", " rows 2 preceding")
            )
        )  # fmt: skip
        found = [one for group in self._expressions.catalog.windows.values() for one in group]
        ranks = ("row_number()", "rank()", "dense_rank()", "count(*)")
        call = (
            text(self._pick(ranks))
            if self._maybe(0.4)
            else self._expressions.call(columns, self._pick(found), 1)
            if self._maybe(0.4) and not self._core
            else self._plain_aggregate(columns)
        )
        return text(f"select {columns[0].sql}, ", call, " over (", partition, order, frame, f") from {source}",
                    self._where(columns))  # fmt: skip

    def _joined_source(self) -> tuple[Piece, list[Column]]:
        columns = [*self._columns("e."), *(Column(sql=f"d.{name}", kind=kind) for name, kind in DIMS)]
        word = self._pick(("join", "join", "left join", "right join", "full join", "inner join"))
        on = self._pick(('e."a ""b"" c" = d.k', "e.kind = d.label", 'e."order" = d."order"', "e.day = d.opened"))
        more = clause(" and ", self._expressions.condition(columns, 1)) if self._maybe(0.2) else text("")
        if self._core or self._maybe(0.8):
            return text(f"events e {word} dims d on {on}", more), columns
        others = (
            *("events e cross join dims d", "events e, dims d", "events e natural join dims d"),
            'events e, lateral (select * from dims where k = e."order") d',
        )
        return text(self._pick(others)), columns

    def _join(self) -> Piece:
        source, columns = self._joined_source()
        return text("select ", self._outputs(columns), " from ", source, self._where(columns))

    def _join_groups(self) -> Piece:
        source, columns = self._joined_source()
        key = self._expressions.make(columns, self._expressions.type(comparable=True), 0)
        made = joined([self._aggregate(columns) for _ in range(2)])
        return text("select ", key, ", ", made, " from ", source, self._where(columns, 0.4), " group by 1")

    def _odd(self) -> Piece:
        return text(
            self._pick(
                (
                    "table events",
                    "select from events",
                    "select events from events order by id",
                    "select e from events e where id = 3",
                    "select (events).id from events",
                    "select count(*), count(events), count(events.*) from events",
                    "select events.events, events from events where events > 5",
                    'select user, "user", count(*) from events group by 1, 2',
                    "select count(*) from events where user = 'ann'",
                    'select count(*) from events where "user" = user',
                    "select id + 1_000, 0x1F, 1_0 from events order by id",
                    "select exists (select from events where id = 7), array(select id from events where id < 4)",
                    "values ((select count(*) from events)), (1)",
                    "select * from (values (1), (null)) v(a) left join events on id = a",
                    "with recursive r as (select 1 as n union all select n + 1 from r where n < 5)"
                    " select n, count(*) from r join events on id < n group by n",
                    "select id from events tablesample system (100) where id < 5",
                    "select count(*) from events for update",
                    "select id from events where id = 3; select id from events where id = 4",
                    "select " + " + ".join(["id"] * 300) + " from events where id = 3",
                    "select count(*) from events where " + " or ".join(f"id = {at}" for at in range(250)),
                    "select count(*) from events where id in (" + ",".join(map(str, range(2000))) + ")",
                    "select " + "(" * 60 + "id" + ")" * 60 + " from events where id = 3",
                    "select id::money from events where id = 3",
                    "select id -- comment\n from events /* and /* nested */ one */ where id = 3",
                    'select "größe", grösse from events',
                    'select U&"\\0069d" from events where id < 3',
                    'select id id, id "ID", id as order from events where id < 3',
                    "select sum(price) over w, count(*) over w from events window w as (partition by kind order by id)",
                )
            )
        )

    # Aggregates.

    def _aggregate(self, columns: Sequence[Column]) -> Piece:
        piece = self._plain_aggregate(columns)
        if self._maybe(0.15):
            condition = clause(" filter (where ", self._expressions.condition(columns, 1), ")")
            return Piece(parts=(piece, condition), kind=piece.kind, simplest=piece.simplest)
        return piece

    def _plain_aggregate(self, columns: Sequence[Column]) -> Piece:
        if self._maybe(0.12):
            return text("count(*)")
        if self._maybe(0.15):
            inner = self._expressions.make(columns, self._expressions.type(comparable=True), 1)
            return text("count(", self._pick(("", "distinct ")), inner, ")")
        groups = self._expressions.catalog.aggregates.values()
        found = self._expressions.favoured([one for group in groups for one in group], self._aggregates)
        one: Signature = self._pick(found)
        roll = self._chance.random()
        if roll < 0.12 and one.arguments:
            return self._expressions.call(columns, one, 2, word="distinct ")
        if (roll < 0.2 and not self._core) or one.name in ("array_agg", "string_agg", "json_agg", "jsonb_agg"):
            call = self._expressions.call(columns, one, 2)
            *head, end = call.parts
            return Piece(parts=(*head, clause(f" order by {columns[0].sql}"), end), kind=call.kind)
        return self._expressions.call(columns, one, 2)

    def _having(self, columns: Sequence[Column]) -> Piece:
        made = self._plain_aggregate(columns)
        if made.kind and self._maybe(0.6):
            return text(made, f" {self._pick(('<', '>=', '<>', '='))} ", self._expressions.literal(made.kind))
        return text(self._pick(("count(*) > 3", "sum(id) > 100", "min(price) is not null", "true")))

    def _scalar(self, kind: str, depth: int) -> Piece:
        """A subquery with one column; mostly of one row."""
        self._aliases += 1
        name = f"q{self._aliases}"
        columns = self._columns(f"{name}.")
        groups = self._expressions.favoured(self._expressions.catalog.aggregates.get(kind, ()), self._aggregates)
        made = (
            self._expressions.call(columns, self._pick(groups), min(depth, 1))
            if groups
            else text("max(", self._pick(("kind", "note")), f")::{sql_name(kind)}")
        )
        return text("select ", made, f" from events {name}", self._where(columns, 0.6, 0))
