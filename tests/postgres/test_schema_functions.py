"""What Postgres decides of columns in its own functions is what the program decides: types, text forms, widenings."""

from __future__ import annotations

import pytest
from tests.postgres.conftest import Shop

from thermocline.core.axis import KeyType, render_axis
from thermocline.core.columns import HeapColumn, lake_type_of, why_not_held
from thermocline.core.names import TableName
from thermocline.core.plan.schema_change import can_promote, same_type
from thermocline.core.types import COLUMN_TYPES
from thermocline.seam.heap.facts import read_heap

DECLARED = (
    "numeric(10,2)",
    "numeric(38,38)",
    "numeric(39,2)",
    "numeric(5,-2)",
    "numeric",
    "varchar(5)",
    "char(3)",
    "timestamp(3)",
)


def test_every_builtin_type_has_the_lake_type_and_verdict_that_the_program_declares(shop: Shop) -> None:
    kinds = shop.rows(
        "select format_type(t.oid, null) from pg_type t left join pg_type e on e.oid = t.typelem"
        " where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'r', 'm')"
        "   and coalesce(e.typtype, 'b') not in ('p', 'c') order by 1"
    )
    shop.run("create domain public.cents as numeric(8,2)", "create type public.mood as enum ('a')")
    shop.run("create type public.pair as (a money, b int)")
    listed = [*(kind for (kind,) in kinds), *DECLARED, "public.cents", "public.mood", "public.pair", "public.cents[]"]
    shop.run("create table public.every (" + ", ".join(f"c{at} {kind}" for at, kind in enumerate(listed)) + ")")
    rows = shop.rows(
        "select a.attname, thermocline.lake_type(thermocline.base_type(a.atttypid), format_type(a.atttypid, "
        "a.atttypmod)),"
        " thermocline.is_unfaithful(a.atttypid) from pg_attribute a where a.attrelid = "
        "'public.every'::regclass and a.attnum > 0"
    )
    told = {name: (lake_type or "text form", is_unfaithful) for name, lake_type, is_unfaithful in rows}
    heap = read_heap(shop.conn, TableName("public", "every"))
    assert {column.name: _decided(column) for column in heap.columns} == told
    assert len(told) > 100


def test_every_declared_type_is_the_type_that_postgres_has_under_its_name(shop: Shop) -> None:
    rows = shop.conn.execute(
        "select typname::text, oid::bigint, typlen::int, format_type(oid, null) from pg_type"
        " where typnamespace = 'pg_catalog'::regnamespace and typname = any(%s)",
        [list(COLUMN_TYPES)],
    ).fetchall()
    declared = {(found.typname, found.oid, found.size, found.name) for found in COLUMN_TYPES.values()}
    assert set(rows) == declared


def test_the_catalog_has_the_declared_types_and_their_axes(shop: Shop) -> None:
    rows = shop.rows("select typname, lake_type, widens_to, axis_unit, from_axis from thermocline.column_types")
    assert {row[0]: row[1:] for row in rows} == {
        name: (
            found.lake.name,
            list(found.widens_to),
            found.axis.unit if found.axis else None,
            found.axis.from_axis if found.axis else None,
        )
        for name, found in COLUMN_TYPES.items()
    }
    for key_type in KeyType:
        at = 17 if key_type.is_integer else 17 * key_type.units_per_day
        (told,) = shop.conn.execute(
            "select thermocline.key_literal(%(type)s, %(at)s), thermocline.key_expression(%(type)s, %(place)s)",
            {"type": key_type.value, "at": at, "place": f"'{at}'"},
        ).fetchall()
        for expression in told:
            spelled = f"select thermocline.axis(({expression})::{key_type.value})"
            assert shop.rows(spelled) == [(at,)]
            assert render_axis(key_type, at) in told[0]


def _decided(column: HeapColumn) -> tuple[str, bool]:
    lake_type, form = lake_type_of(column)
    return lake_type if form == "native" else "text form", why_not_held(column) is not None


@pytest.mark.parametrize(
    ("was", "becomes", "widens"),
    [
        (("int2", "smallint"), ("int4", "integer"), True),
        (("int4", "integer"), ("int8", "bigint"), True),
        (("int8", "bigint"), ("int4", "integer"), False),
        (("float4", "real"), ("float8", "double precision"), True),
        (("numeric", "numeric(10,2)"), ("numeric", "numeric(12,2)"), True),
        (("numeric", "numeric(10,2)"), ("numeric", "numeric(39,2)"), False),
        (("numeric", "numeric(10,2)"), ("numeric", "numeric"), False),
        (("varchar", "character varying(5)"), ("text", "text"), True),
        (("varchar", "character varying(5)"), ("varchar", "character varying(4)"), False),
        (("text", "text"), ("varchar", "character varying"), True),
        (("text", "text"), ("varchar", "character varying(9)"), False),
        (("date", "date"), ("timestamp", "timestamp without time zone"), False),
        (("int4", "integer"), ("text", "text"), False),
    ],
)
def test_what_widens_is_what_the_lake_can_promote(
    shop: Shop, was: tuple[str, str], becomes: tuple[str, str], widens: bool
) -> None:
    ask = "select thermocline.is_widening(%s, %s, %s, %s), thermocline.lake_type(%s, %s), thermocline.lake_type(%s, %s)"
    told, before, after = shop.conn.execute(ask, [*was, *becomes, *was, *becomes]).fetchall()[0]
    assert told is widens
    if widens:
        assert same_type(before, after) or can_promote(before, after)


@pytest.mark.parametrize(
    ("change", "is_plain"),
    [
        ("alter column v type bigint using v::bigint", True),
        ("ALTER COLUMN V TYPE BIGINT USING v::bigint", True),
        ('alter "v" set data type bigint using V :: bigint;', True),
        ('alter column "V" type bigint using "V"::bigint, alter w type numeric(10, 2) using w::numeric(10, 2)', True),
        ('alter column "a ""b""" type bigint using "a ""b"""::bigint', True),
        ('alter column "V" type bigint using "v"::bigint', False),
        ('alter column "V" type bigint using V::bigint', False),
        ('alter column v type bigint using "V"::bigint', False),
        ("alter column ä type bigint using Ä::bigint", False),
        ("alter column v type bigint using v::integer", False),
        ("alter column v type bigint using v::bigint + 1", False),
        ('alter v type bigint using v::bigint, alter "V" type bigint using v::bigint', False),
    ],
)
def test_a_using_is_plain_when_it_names_the_very_column_and_type(shop: Shop, change: str, is_plain: bool) -> None:
    ((rest,),) = shop.conn.execute("select thermocline.without_plain_using(%s)", [f"alter table t {change}"]).fetchall()
    assert ("using" in rest.lower()) is not is_plain
