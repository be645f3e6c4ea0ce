"""Names that need quoting, or look like places, placeholders or names of ours: registered, tiered, folded, altered,
maintained, restored.

A table holds every odd name as a column at once; schemas, tables and partitions carry them too. The twin is an ordinary
table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from thermocline.core.names import TableName
from thermocline.errors import CannotRegister
from thermocline.gateway.server import start_in_thread
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.ops.fold import fold
from thermocline.ops.inspect.explain import explain
from thermocline.ops.inspect.overview import read_overview
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.register.unregistration import unregister
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

QUOTES = ("it's", 'say "hi"', "back`tick", "back\\slash", "''", '"', "/* x", "-- x", "a;b", "tab\there", "line\nbreak")
PLACES = (
    "50%",
    "%s",
    "%(x)s",
    "%I",
    "%1$s",
    "%%",
    "{}",
    "{columns}",
    "{0}",
    "$$",
    "$1",
    "${x}",
    ":x",
    "?",
    "#1.1",
    "\\1",
)
PLAIN = (
    "with space",
    " lead",
    "trail ",
    "dot.ted",
    "sla/shed",
    "a=b",
    "1digit",
    "ünïcødé",
    "🐘𝒳",
    "٣",
    "select",
    "user",
    "order",
    "UPPER",
    "upper",
    "Note",
    "nOTE",
    "null",
)
OURS = (
    "oid",
    "h",
    "d",
    "l",
    "s",
    "c",
    "m",
    "k",
    "x",
    "c0",
    "c1",
    "_h",
    "_row",
    "old",
    "new",
    "tg_op",
    "held",
    "came_from",
    "requested",
    "seam",
    "_tc_1",
)
LONG = ("x" * 63, "x" * 62 + "y", "é" * 31 + "z", "🐘" * 15 + "abc")
ODD = (*QUOTES, *PLACES, *PLAIN, *OURS, *LONG)

HOMES = (
    # schema, table, tier key, first column of the key
    ('odd\'s "%s" {}', 'Ta"ble % 🐘 {columns} $$ \\1', 'when % "{}"', "id's"),
    ("s" * 63, "t" * 62 + "1", "k" * 63, "order"),
    ("s" * 63, "t" * 62 + "2", "User.key", "k" * 62 + "2"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """One table under odd names, its twin, and the ways to move it."""

    dsn: str
    settings: Settings
    name: TableName
    key: str
    id: str
    conn: psycopg.Connection[Any]

    @property
    def seam(self) -> TableName:
        row = self.conn.execute(
            "select seam_schema from thermocline.tables where table_name = %s", [self.name.table]
        ).fetchone()
        assert row is not None
        return TableName(row[0], self.name.table)

    def both(self, template: str, **names: str) -> None:
        """Run a statement on the seam and on the twin; both must return the same rows."""
        given = {name: sql.Identifier(value) for name, value in names.items()}
        given |= {"key": sql.Identifier(self.key), "id": sql.Identifier(self.id)}
        outcomes = []
        for table in (self.seam, TableName("twin", self.name.table)):
            cursor = self.conn.execute(
                sql.SQL(template).format(table=sql.Identifier(table.schema, table.table), **given)
            )
            outcomes.append(sorted(cursor.fetchall(), key=repr) if cursor.description else cursor.statusmessage)
        assert outcomes[0] == outcomes[1]

    def alter(self, template: str, **names: str) -> None:
        given = {name: sql.Identifier(value) for name, value in names.items()}
        for table in (self.name, TableName("twin", self.name.table)):
            self.conn.execute(sql.SQL(template).format(table=sql.Identifier(table.schema, table.table), **given))

    def assert_same(self, relation: TableName | None = None) -> None:
        ours, twin = (
            sql.Identifier(one.schema, one.table) for one in (relation or self.seam, TableName("twin", self.name.table))
        )
        for one, other in ((ours, twin), (twin, ours)):
            assert (
                self.conn.execute(sql.SQL("select * from {} except all select * from {}").format(one, other)).fetchall()
                == []
            )

    def fold(self) -> None:
        fold(self.dsn, self.name, settings=self.settings, spark=lazy_spark_session(self.dsn, self.settings))

    def tier(self) -> list[str]:
        return tier(
            self.dsn, self.name, settings=self.settings, spark=lazy_spark_session(self.dsn, self.settings)
        ).moved


def _create(conn: psycopg.Connection[Any], name: TableName, key: str, id_: str, columns: tuple[str, ...]) -> None:
    typed = sql.SQL(", ").join(
        [
            sql.SQL("{} integer not null, {} date not null").format(sql.Identifier(id_), sql.Identifier(key)),
            *(
                sql.SQL("{} {}").format(sql.Identifier(c), sql.SQL(("text", "integer")[at % 2]))
                for at, c in enumerate(columns)
            ),
            sql.SQL("primary key ({}, {})").format(sql.Identifier(id_), sql.Identifier(key)),
        ]
    )
    heap, twin = sql.Identifier(name.schema, name.table), sql.Identifier("twin", name.table)
    conn.execute(
        sql.SQL("create schema if not exists {}; create schema if not exists twin").format(sql.Identifier(name.schema))
    )
    conn.execute(sql.SQL("create table {} ({}) partition by range ({})").format(heap, typed, sql.Identifier(key)))
    conn.execute(sql.SQL("create table {} ({})").format(twin, typed))
    for month in (1, 2, 3):
        part = sql.Identifier(name.schema, f"{month}{name.table[1:]}")
        bounds = sql.SQL("for values from ({}) to ({})").format(
            sql.Literal(f"2026-0{month}-01"), sql.Literal(f"2026-0{month + 1}-01")
        )
        conn.execute(sql.SQL("create table {} partition of {} {}").format(part, heap, bounds))
    values = sql.SQL(", ").join(sql.SQL(("'v' || i", "i")[at % 2]) for at in range(len(columns)))
    for table in (heap, twin):
        conn.execute(
            sql.SQL("insert into {} select i, date '2026-01-01' + i, {} from generate_series(1, 80) i").format(
                table, values
            )
        )


@pytest.fixture
def place(database: str, tmp_path: Path) -> Iterator[tuple[Settings, psycopg.Connection[Any]]]:
    with closing(connect(database, autocommit=True, application_name="test")) as conn:
        gateway = start_in_thread(database)
        conn.prepare_threshold = None
        yield (
            Settings(
                dir=tmp_path,
                dsn=database,
                warehouse=str(tmp_path / "lake"),
                gateway_listen=f"127.0.0.1:{gateway.port}",
                spark_master="local[2,2]",
                spark_driver_memory="2g",
                lock_timeout_ms=1000,
            ),
            conn,
        )
        gateway.stop()


def _ask_whole(odd: Odd, columns: tuple[str, ...]) -> None:
    """Query every column through the gateway; DuckDB and Postgres must return the same."""
    host, port = odd.settings.gateway_hosts_and_ports
    seam = sql.Identifier(odd.seam.schema, odd.seam.table)
    with closing(psycopg.connect(odd.dsn, host=host, port=port, autocommit=True)) as whole:
        for column in columns:
            query = sql.SQL("select {c}, count(*) from {t} where {c} is not null group by {c}").format(
                c=sql.Identifier(column), t=seam
            )
            answers = []
            for conn in (whole, odd.conn):
                cursor = conn.execute(query)
                answers.append(
                    ([field.name for field in cursor.description or ()], sorted(cursor.fetchall(), key=repr))
                )
            assert answers[0] == answers[1], column


def _call_functions(odd: Odd, column: str) -> None:
    """The functions for users, by the heap's name as a regclass and the columns' names as fields."""

    def call(function: str, fields: dict[str, object]) -> object:
        row = odd.conn.execute(
            f"select thermocline.{function}(%s::regclass, %s)".encode(), [str(odd.name), Jsonb(fields)]
        ).fetchone()
        return row and row[0]

    cold, hot = {odd.id: 901, odd.key: "2026-01-07"}, {odd.id: 902, odd.key: "2026-03-28"}
    assert call("upsert", cold | {column: "one"}) == "delta"
    assert call("upsert", hot | {column: "one"}) == "hot"
    assert call("upsert", cold | {column: "two %s {}"}) == "delta"
    assert call("insert_if_absent", cold | {column: "three"}) is None
    assert call("delete", hot) == "hot"
    locked = odd.conn.execute(
        "select thermocline.lock_rows(%s::regclass, %s)", [str(odd.name), Jsonb([cold, hot])]
    ).fetchall()
    assert len(locked) == 2
    twin = sql.SQL("insert into {} ({}, {}, {}) values (901, '2026-01-07', 'two %s {{}}')")
    names = (
        sql.Identifier("twin", odd.name.table),
        sql.Identifier(odd.id),
        sql.Identifier(odd.key),
        sql.Identifier(column),
    )
    odd.conn.execute(twin.format(*names))
    odd.assert_same()


def _write(odd: Odd, columns: tuple[str, ...], number: int) -> None:
    """A row of each tier gets a value in every column that has an odd name."""
    text, whole = [c for c in columns if columns.index(c) % 2 == 0], [c for c in columns if columns.index(c) % 2 == 1]
    names = {f"t{at}": c for at, c in enumerate(text)} | {f"w{at}": c for at, c in enumerate(whole)}
    assignments = [f"{{t{at}}} = 'new ' || {{t{at}}}" for at in range(len(text))] + [
        f"{{w{at}}} = {{w{at}}} + 1" for at in range(len(whole))
    ]
    odd.both(
        f"update {{table}} set {', '.join(assignments)} where {{id}} in ({5 + number}, 33, {75 + number}) returning *",
        **names,
    )
    odd.both(
        f"insert into {{table}} ({{id}}, {{key}}, {{t0}}) values ({500 + number}, '2025-05-05', 'old') returning *",
        **names,
    )
    odd.both(
        f"update {{table}} set {{key}} = {{key}} + 1 where {{id}} in ({6 + number}, {500 + number}) returning *",
        **names,
    )
    odd.both(f"delete from {{table}} where {{id}} = {7 + number} returning *", **names)
    odd.assert_same()


@pytest.mark.parametrize("home", [HOMES[0], HOMES[2]], ids=["quoted", "63 bytes beside a neighbour"])
@pytest.mark.conforms("C-229")
def test_every_odd_name_goes_through_the_whole_life_of_a_table(
    place: tuple[Settings, psycopg.Connection[Any]], home: tuple[str, ...]
) -> None:
    settings, conn = place
    for schema, table, key, id_ in (home, HOMES[1]) if home is HOMES[2] else (home,):
        name = TableName(schema, table)
        columns = tuple(c for c in ODD if c not in (key, id_))
        _create(conn, name, key, id_, columns)
        register(str(settings.dsn), RegisterRequest(table=name, premake=1), settings=settings)
    name = TableName(home[0], home[1])
    columns = tuple(c for c in ODD if c not in home[2:])
    odd = Odd(dsn=str(settings.dsn), settings=settings, name=name, key=home[2], id=home[3], conn=conn)
    odd.assert_same()
    assert len(odd.tier()) == 2
    odd.assert_same()
    for at, column in enumerate(columns):
        wanted = sql.Literal("v9") if at % 2 == 0 else sql.Literal(9)
        query = sql.SQL("select count(*) from {} where {} = {}").format(
            sql.Identifier(odd.seam.schema, name.table), sql.Identifier(column), wanted
        )
        assert conn.execute(query).fetchone() == (1,), column
    _ask_whole(odd, columns)
    _write(odd, columns, 0)
    _call_functions(odd, columns[0])
    odd.fold()
    odd.assert_same()

    for at, column in enumerate(c for c in columns[::7] if c not in LONG):
        odd.alter("alter table {table} rename column {was} to {now}", was=column, now=f"now {at} %s")
    odd.alter("alter table {table} drop column {was}", was=columns[1])
    odd.alter("alter table {table} drop column {was}", was="x" * 63)
    odd.alter("alter table {table} add column {new} text default '50% of {{}} it''s'", new="added % {} '")
    odd.alter("alter table {table} add column {new} integer default 7", new="x" * 63)
    odd.assert_same()
    odd.both(
        "update {table} set {new} = {new} || '%s', {x} = {x} + 1 where {id} in (8, 33, 500, 76) returning *",
        new="added % {} '",
        x="x" * 63,
    )
    odd.assert_same()
    odd.fold()
    odd.tier()
    odd.assert_same()

    told = run_pass(
        odd.dsn,
        name,
        settings=settings,
        spark=lazy_spark_session(odd.dsn, settings),
        request=PassRequest(operations=("compact",)),
    )
    assert [outcome.status for outcome in told.outcomes] == ["done"]
    report = verify(odd.dsn, name)
    assert report.is_exact, report.sentence
    assert {found.table for found in read_overview(odd.dsn)} >= {str(name)}
    assert explain(
        odd.dsn, sql.SQL("select * from {}").format(sql.Identifier(odd.seam.schema, name.table)).as_string(conn)
    ).tables
    odd.assert_same()
    odd.both("update {table} set {x} = 99 where {id} in (9, 77) returning *", x="x" * 63)
    unregister(odd.dsn, name, settings=settings, restore_heap=True)
    odd.assert_same(name)


@pytest.mark.parametrize("column", ["_op", "_version", "_folded", "_snapshot", "_old_key"])
def test_names_of_our_own_columns_are_refused_by_name(
    place: tuple[Settings, psycopg.Connection[Any]], column: str
) -> None:
    settings, conn = place
    _create(conn, TableName("public", "events"), "ts", "id", (column,))
    with pytest.raises(CannotRegister, match=f"a column {column}, a name Thermocline needs itself"):
        register(str(settings.dsn), RegisterRequest(table=TableName("public", "events")), settings=settings)
