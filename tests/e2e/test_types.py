"""Every type from the heap through the lake and back: bit for bit what an ordinary table holds, under any session's
settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.extreme_values import literal
from tests.twin import EVENTS_PARTITIONS, Spanning

from thermocline.errors import UnrepresentableValue
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.postgres_server import PostgresServer

BEFORE = """
create extension citext schema public;
create extension hstore schema public;
create type public.mood as enum ('sad', 'so so', 'it''s "fine", ok');
create type public.pair as (a integer, b text);
create domain public.price as numeric(10, 2) check (value >= 0);
create domain public.word as text check (value <> '');
create domain public.moment as timestamptz;
"""
VALUES = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "32767", "0"],
    "integer": ["-2147483648", "2147483647", "0"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "0"],
    "real": ["-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "0.1"],
    "double precision": ["-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "0.1"],
    "numeric(12, 2)": ["1.10", "-0.01", "9999999999.99", "-9999999999.99", "0"],
    "numeric(38, 10)": ["1.10", "-0.0000000001", "9999999999999999999999999999.9999999999", "0.0000000001"],
    "numeric(38, 0)": ["99999999999999999999999999999999999999", "-1"],
    "numeric": ["1.10", "1.1000", "NaN", "Infinity", "-Infinity", "1e-200", "1e200", "0.00"],
    "numeric(50, 3)": ["1.100", "99999999999999999999999999999999999999999999999.999"],
    "numeric(3, -2)": ["12300", "-99900"],
    "text": ["", " ", "a\nb\r\n\tc", "𝄞 emoji 🐘 ü", "\\N", "NULL", "quo\"te'd", "x" * 300_000, "ÿ" * 200],
    'text collate "C"': ["", "𝄞 Ü", "a\\b", "y" * 500],
    "varchar(50)": ["", "  trailing  ", "𝄞"],
    "char(10)": ["", "abc", "abc  ", "ten chars!"],
    '"char"': ["x", ""],
    "name": ["a name", ""],
    "date": ["0001-01-01", "4714-11-24 BC", "99999-12-31", "1970-01-01", "1969-12-31"],
    "time": ["00:00:00", "23:59:59.999999", "12:34:56.1"],
    "timetz": ["00:00:00+15:59", "23:59:59.999999-15:59", "24:00:00+00"],
    "timestamp": [
        "0001-01-01 00:00:00",
        "4714-11-24 00:00:00 BC",
        "99999-12-31 23:59:59.999999",
        "1969-12-31 23:59:59.999999",
    ],
    "timestamptz": ["0001-01-01 00:00:00+00", "99999-12-31 23:59:59.999999+00", "2026-03-29 02:30:00.000001+02"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "bytea": ["", "\\x00", "\\xdeadbeef00ff", "\\x" + "ab" * 100_000],
    "json": ['{"b": 1,  "a": [1, 2], "b": 2}', "null", '"𝄞\\u0041"', "[]"],
    "jsonb": ['{"b": 1, "a": [1.10, 2], "b": 2}', "null", '"𝄞"', "[]", '{"": {"a": null}}'],
    "interval": [
        "1 year 2 mons -3 days +04:05:06.789",
        "-1 mons +2 days -03:00:00",
        "0",
        "178000000 years",
        "-1 day",
        "00:00:00.000001",
    ],
    "public.mood": ["sad", "so so", 'it\'s "fine", ok'],
    "inet": ["192.168.1.5/24", "10.0.0.1", "::1", "2001:db8::/32"],
    "cidr": ["192.168.1.0/24", "::/0"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "bit(5)": ["10101", "00000"],
    "bit varying": ["", "1", "0101010101"],
    "xml": ['<a b="1">&lt;text&#x1D11E;</a>', "<a/>"],
    "tsvector": ["'a':1A 'b':2,3", ""],
    "tsquery": ["'a' & !'b' | 'c':*", ""],
    "jsonpath": ["$.a[*] ? (@ > 1)"],
    "pg_lsn": ["0/0", "FFFFFFFF/FFFFFFFF"],
    "xid8": ["0", "18446744073709551615"],
    "point": ["(1.1,-2)", "(NaN,Infinity)"],
    "line": ["{1,2,3}"],
    "lseg": ["[(0,0),(1,1.5)]"],
    "box": ["(1,1),(0,0)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1))"],
    "polygon": ["((0,0),(1,1),(2,0))"],
    "circle": ["<(0,0),1.5>"],
    "int4range": ["empty", "[1,5)", "(,)", "[3,)"],
    "tstzrange": ['["2026-01-01 00:00:00+00",infinity)', "empty"],
    "numrange": ["[1.10,2.0]"],
    "int4multirange": ["{}", "{[1,2),[5,9)}"],
    "public.pair": ["(1,a)", '(,"a ""quoted"", one")', "(2,)"],
    "public.price": ["0.00", "12345678.90"],
    "public.word": ["𝄞 word", "x"],
    "public.moment": ["2026-01-01 00:00:00.5+00", "infinity"],
    "public.citext": ["CaSe", ""],
    "public.hstore": ['"a"=>"1", "b"=>NULL', ""],
    "integer[]": ["{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[0:1]={5,6}"],
    "text[]": ["{}", '{"a,b","NULL",NULL,"","\\\\","\\""}', '{"line\nbreak",𝄞}'],
    "numeric[]": ["{1.10,NaN}"],
    "numeric(6, 2)[]": ["{1.10,2.00}"],
    "double precision[]": ["{-0,NaN,Infinity,0.1}"],
    "boolean[]": ["{t,f,NULL}"],
    "date[]": ["{0001-01-01,infinity}"],
    "timestamptz[]": ['{"2026-01-01 00:00:00+00",-infinity}'],
    "interval[]": ['{"1 mon -2 days",NULL}'],
    "uuid[]": ["{00000000-0000-0000-0000-000000000000}"],
    "bytea[]": ['{"\\\\x00ff",""}'],
    "jsonb[]": ['{"{\\"a\\": 1}",null}'],
    "inet[]": ["{10.0.0.1/8}"],
    "char(3)[]": ["{a,bcd}"],
    "public.mood[]": ['{sad,"so so"}'],
    "public.pair[]": ['{"(1,a)",NULL}'],
    "public.price[]": ["{1.10}"],
    "public.citext[]": ["{A,b}"],
}
COLUMNS = [f"c{number}" for number in range(len(VALUES))]
TABLE = (
    "create table {schema}.events (id bigint not null, ts timestamptz not null, "
    + ", ".join(f"{column} {spelled}" for column, spelled in zip(COLUMNS, VALUES, strict=True))
    + ", primary key (id, ts))"
)
HEIGHT = max(len(values) for values in VALUES.values())
MIDDAY = "2026-01-15 12:00+00"


ROWS = (
    f"insert into events (id, ts) values (0, '{MIDDAY}'), (-1, '2026-04-15 12:00+00');\ninsert into events values "
    + ", ".join(
        (
            f"({row + 1}, '{MIDDAY}', "
            f"{', '.join(literal(values[row] if row < len(values) else None) for values in VALUES.values())})"
        )
        for row in range(HEIGHT)
    )
)


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    """One column per type; a row of NULLs, then one row per value, all in the lake alone."""
    choices: dict[str, Any] = {
        "before": BEFORE,
        "table": TABLE,
        "partitions": EVENTS_PARTITIONS,
        "rows": ROWS,
        "cycles": 1,
    }
    with make_clonable(postgres, template, tmp_path_factory.mktemp("types"), **choices) as made:
        yield made


@pytest.fixture(scope="module")
def wide(tiered: ClonableTable) -> Iterator[Spanning]:
    with tiered.clone() as spanning:
        assert spanning.query("select count(*), min(id), max(id) from public.events") == [(1, -1, -1)]
        yield spanning


@pytest.mark.conforms("C-167", "C-168", "C-169", "C-171")
@pytest.mark.parametrize(("column", "spelled"), list(zip(COLUMNS, VALUES, strict=True)), ids=list(VALUES))
def test_a_type_comes_back_from_the_lake_bit_for_bit(wide: Spanning, column: str, spelled: str) -> None:
    differing = wide.query(
        f"select t.id, t.{column}::text, s.{column}::text, pg_typeof(s.{column}) from twin.events t join "
        "public_all.events s using (id, ts)"
        f" where not record_image_eq(row(t.{column}), row(s.{column}))"
    )
    assert differing == []
    assert wide.query(f"select count(*), count({column}) from public_all.events") == [
        (HEIGHT + 2, len(VALUES[spelled]))
    ]
    types = f"select distinct pg_typeof({column})::text from"
    assert wide.query(f"{types} public_all.events") == wide.query(f"{types} twin.events")


@pytest.mark.conforms("C-169", "C-170", "C-171")
@pytest.mark.parametrize(
    "setting",
    [
        "timezone = 'America/New_York'",
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'SQL, DMY'",
        "datestyle = 'German'",
        "intervalstyle = sql_standard",
        "intervalstyle = iso_8601",
        "bytea_output = escape",
        "extra_float_digits = -15",
        "xmloption = document",
        "search_path = pg_catalog",
    ],
)
def test_a_sessions_settings_do_not_change_what_the_lake_holds(wide: Spanning, setting: str) -> None:
    session = wide.session(autocommit=True)
    session.execute(f"set {setting}".encode())
    differing = session.execute(
        b"select t.id from twin.events t join public_all.events s using (id, ts) where not "
        b"record_image_eq(row(t.*), row(s.*))"
    ).fetchall()
    assert differing == []


@pytest.mark.conforms("C-090", "C-167")
def test_a_cold_row_of_every_type_is_updated_and_deleted_through_the_seam(wide: Spanning) -> None:
    """Its old image comes from the lake and is compared with nothing lost, whatever its types."""
    session = wide.session()
    assert session.execute("update events set c1 = 7 where id between 0 and 99").statusmessage == f"UPDATE {HEIGHT + 1}"
    assert session.execute("update events set c2 = 8 where id between 0 and 99").statusmessage == f"UPDATE {HEIGHT + 1}"
    session.execute("update twin.events set c1 = 7, c2 = 8 where id between 0 and 99")
    differing = (
        "select t.id from twin.events t join public_all.events s using (id, ts) where not "
        "record_image_eq(row(t.*), row(s.*))"
    )
    assert session.execute(differing.encode()).fetchall() == []
    assert session.execute("delete from events where id >= 0").statusmessage == f"DELETE {HEIGHT + 1}"
    assert session.execute("select id from events").fetchall() == [(-1,)]
    session.rollback()


@pytest.mark.conforms("C-090", "C-167", "C-168")
def test_rows_of_every_type_are_the_same_before_and_after_a_fold(tiered: ClonableTable) -> None:
    """Each type has its values updated, deleted and inserted below the cut-line, and is asked with conditions."""
    shorter = [[value[:6000] for value in values] for values in VALUES.values()]
    with tiered.clone() as spanning:
        for row in range(HEIGHT + 1):
            changed = [values[(row + 1) % len(values)] if row % 4 else None for values in shorter]
            assigned = ", ".join(f"{column} = {literal(value)}" for column, value in zip(COLUMNS, changed, strict=True))
            spanning.both(f"update events set {assigned} where id = {row}")
            given = ", ".join(literal(values[(row + 2) % len(values)]) for values in shorter)
            spanning.both(f"insert into events values ({100 + row}, '2026-02-11 03:00+00', {given})")
        spanning.both("delete from events where id in (2, 101)")
        spanning.assert_same_rows()
        assert spanning.fold().commits == 1
        spanning.assert_same_rows(each=1)
        for row in range(0, HEIGHT, 3):
            spanning.both(f"delete from events where id = {row}")
            spanning.both(f"update events set {COLUMNS[row]} = null where id = {100 + row}")
        assert spanning.fold().commits == 1
        spanning.assert_same_rows()
        assert verify(spanning.dsn, spanning.name).is_exact


def test_a_session_that_reads_no_nulls_in_arrays_cannot_read_them_from_the_lake_either(wide: Spanning) -> None:
    """A limit, in docs/limits.md: arrays are kept in their text form, which `array_nulls = off` reads differently."""
    column = COLUMNS[list(VALUES).index("boolean[]")]
    session = wide.session(autocommit=True)
    session.execute("set array_nulls = off")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        session.execute(f"select {column} from events".encode()).fetchall()


@pytest.mark.conforms("C-198")
def test_verify_compares_values_of_every_type(wide: Spanning) -> None:
    report = verify(wide.dsn, wide.name)
    assert report.is_exact, report.sentence
    assert sum(verdict.rows for verdict in report.ranges) == HEIGHT + 1


NO_LAKE_FORM = {
    "timestamp infinity": ("timestamp", "infinity"),
    "timestamptz -infinity": ("timestamptz", "-infinity"),
    "date infinity": ("date", "infinity"),
    "numeric NaN": ("numeric(12, 2)", "NaN"),
    "time 24:00": ("time", "24:00:00"),
}


@pytest.mark.conforms("C-168")
@pytest.mark.parametrize(("spelled", "value"), NO_LAKE_FORM.values(), ids=NO_LAKE_FORM.keys())
def test_a_value_with_no_lake_form_stops_tiering_by_name_and_changes_nothing(
    make_spanning: Callable[..., Spanning], spelled: str, value: str
) -> None:
    table = (
        "create table {schema}.events (id bigint not null, ts timestamptz not null, odd "
        + spelled
        + ", primary key (id, ts))"
    )
    rows = (
        f"insert into events values (17, '{MIDDAY}', '{value}'), (18, '{MIDDAY}', null), (19, '2026-04-15 "
        "12:00+00', null)"
    )
    spanning = make_spanning(table=table, rows=rows)
    before = spanning.query("select t, s, epoch from thermocline.cutline")
    with pytest.raises(UnrepresentableValue) as refusal:
        spanning.tier()
    for part in ("events", "odd", value, "17"):
        assert part in str(refusal.value)
    assert spanning.query("select t, s, epoch from thermocline.cutline") == before
    spanning.assert_same_rows()
    spanning.both("delete from events where id = 17")
    assert spanning.tier().rows == 1
    spanning.assert_same_rows()
