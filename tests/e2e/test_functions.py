"""The SQL functions: one row by its fields or its key, routed by the cut-line, with the caller's own rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.twin import Outcome, Spanning
from tests.twin_transaction import TwinTransaction, rolled_back_transaction, spanning_module

from thermocline.runtime.postgres_server import PostgresServer

COLD, HOT = "2026-01-20 10:00+00", "2026-04-20 10:00+00"


@pytest.fixture(scope="module")
def tiered(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """Rows 1 to 359 lie in the lake, 360 to 400 in the heap."""
    with spanning_module(postgres, template, tmp_path_factory.mktemp("events")) as spanning:
        spanning.tier()
        yield spanning


@pytest.fixture
def both_sides(tiered: Spanning) -> Iterator[TwinTransaction]:
    with rolled_back_transaction(tiered.dsn) as both_sides:
        yield both_sides


def _call(both_sides: TwinTransaction, function: str, fields: Any, target: str = "public.events") -> Outcome:
    return both_sides.ours(f"select thermocline.{function}(%s::regclass, %s)", [target, json.dumps(fields)])


def _key(both_sides: TwinTransaction, number: int) -> dict[str, Any]:
    ((moment,),) = both_sides.ours(f"select ts::text from events where id = {number}").rows
    return {"id": number, "ts": moment}


def _row(both_sides: TwinTransaction, number: int) -> list[tuple[Any, ...]]:
    return both_sides.ours(f"select v, note, amount, tags, doc from events where id = {number}").rows


@pytest.mark.conforms("C-043", "C-086", "C-090", "C-099")
@pytest.mark.parametrize("target", ["public.events", "public_all.events"])
@pytest.mark.parametrize(("existing", "moment", "place"), [(5, COLD, "delta"), (390, HOT, "hot")])
def test_upsert_replaces_or_makes_a_row_and_says_where_it_went(
    both_sides: TwinTransaction, target: str, existing: int, moment: str, place: str
) -> None:
    full = {"v": 1, "note": "𝄞", "amount": "1.10", "tags": ["a", None], "doc": {"b": [1]}}
    assert _call(both_sides, "upsert", {**_key(both_sides, existing), **full}, target).rows == [(place,)]
    assert [str(value) for value in _row(both_sides, existing)[0]] == ["1", "𝄞", "1.10", "['a', None]", "{'b': [1]}"]
    assert _call(both_sides, "upsert", {**_key(both_sides, existing), "v": 2}, target).rows == [(place,)]
    assert _row(both_sides, existing) == [(2, "d", None, None, None)]
    assert _call(both_sides, "upsert", {"id": 900, "ts": moment, "v": 3}, target).rows == [(place,)]
    assert _row(both_sides, 900) == [(3, "d", None, None, None)]
    assert both_sides.ours("select count(*) from events").rows == [(401,)]


@pytest.mark.conforms("C-043")
@pytest.mark.parametrize(("existing", "moment", "place"), [(5, COLD, "delta"), (390, HOT, "hot")])
def test_insert_if_absent_leaves_a_row_of_either_tier_alone(
    both_sides: TwinTransaction, existing: int, moment: str, place: str
) -> None:
    before = _row(both_sides, existing)
    assert _call(both_sides, "insert_if_absent", {**_key(both_sides, existing), "v": 77}).rows == [(None,)]
    assert _row(both_sides, existing) == before
    for answer in (place, None):
        assert _call(both_sides, "insert_if_absent", {"id": 900, "ts": moment, "v": 3}).rows == [(answer,)]
    assert _row(both_sides, 900) == [(3, "d", None, None, None)]
    assert _call(both_sides, "delete", {"id": 900, "ts": moment}).rows == [(place,)]
    assert _call(both_sides, "insert_if_absent", {"id": 900, "ts": moment, "v": 4}).rows == [(place,)]


@pytest.mark.conforms("C-094", "C-100")
@pytest.mark.parametrize(("existing", "place"), [(5, "delta"), (390, "hot")])
def test_delete_removes_the_row_of_a_key_from_its_tier_once(
    both_sides: TwinTransaction, existing: int, place: str
) -> None:
    key = _key(both_sides, existing)
    both_sides.twins(f"delete from events where id = {existing}")
    for answer in (place, None):
        assert _call(both_sides, "delete", key).rows == [(answer,)]
    both_sides.check_both("select count(*) from events")


@pytest.mark.conforms("C-099", "C-100")
@pytest.mark.parametrize(
    ("function", "fields", "said"),
    [
        ("upsert", {"id": 1, "ts": COLD}, 'needs the field "v"'),
        ("upsert", {"id": 1, "v": 1}, 'needs the field "ts"'),
        ("upsert", {"id": 1, "ts": COLD, "v": -1}, "check constraint"),
        ("upsert", {"id": 1, "ts": COLD, "v": None}, 'null value in column "v"'),
        ("upsert", {"id": 1, "ts": COLD, "v": 1, "w": 2}, 'column "w"'),
        ("upsert", [1], "takes a JSON object"),
        ("insert_if_absent", {"id": 1, "v": 1}, 'needs the field "ts"'),
        ("insert_if_absent", {"id": 900, "ts": COLD}, 'needs the field "v"'),
        ("delete", {"id": 1}, 'needs the field "ts"'),
        ("delete", {"id": 1, "ts": COLD, "v": 1}, "and nothing else"),
    ],
)
def test_a_call_that_is_wrong_is_refused_by_name(
    both_sides: TwinTransaction, function: str, fields: Any, said: str
) -> None:
    with pytest.raises(psycopg.Error) as refusal:
        both_sides.conn.execute(f"select thermocline.{function}('public.events', %s)".encode(), [json.dumps(fields)])
    assert said in str(refusal.value)


def test_a_table_that_does_not_span_is_refused(both_sides: TwinTransaction) -> None:
    assert _call(both_sides, "upsert", {"id": 1}, "twin.events").state == "42P01"


@pytest.mark.conforms("O-116")
def test_the_functions_give_no_role_more_than_its_own_rights(
    both_sides: TwinTransaction, postgres: PostgresServer
) -> None:
    both_sides.conn.execute("create role stranger; create role reader; create role writer")
    both_sides.conn.execute("grant usage on schema public, public_all to reader, writer, stranger")
    for schema in ("public", "public_all"):
        both_sides.conn.execute(f"grant select on {schema}.events to reader, writer".encode())
        both_sides.conn.execute(f"grant insert, update, delete on {schema}.events to writer".encode())
    cold = _key(both_sides, 5)
    calls = [("upsert", {**cold, "v": 1}), ("insert_if_absent", {"id": 900, "ts": COLD, "v": 1}), ("delete", cold)]
    for role, states in (("stranger", {"42P01", "42501"}), ("reader", {"42501"}), ("writer", {"00000"})):
        both_sides.conn.execute(f"set local role {role}".encode())
        assert {_call(both_sides, function, fields).state for function, fields in calls} <= states
        both_sides.conn.execute("reset role")


@pytest.mark.conforms("O-116")
def test_every_function_of_ours_that_runs_as_its_owner_pins_its_search_path(tiered: Spanning) -> None:
    unpinned = tiered.query(
        "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname like 'thermocline%' and p.prosecdef and not coalesce(p.proconfig::text like "
        "'%search_path%', false)"
    )
    assert unpinned == []
