"""The routing matrix: every operation, in every mode, on either side of T, has a declared path, and what is built takes
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.twin import Spanning
from tests.twin_transaction import spanning_module

from thermocline.core.modes.mode import MODES, TIERED, TIERED_KEEP_HEAP, Mode
from thermocline.core.modes.routing import ROUTES, Operation, Path, Side, missing_triples
from thermocline.ops.inspect.explain import explain
from thermocline.runtime.postgres_server import PostgresServer

MOMENTS = {Side.RECENT: "2026-04-20 10:00+00", Side.HISTORICAL: "2026-01-20 10:00+00"}
EXISTING = {Side.RECENT: 390, Side.HISTORICAL: 50}
WRITES = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


@pytest.fixture(scope="module")
def both_modes(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Mode, Spanning]]:
    """One table of each mode that is built, tiered: rows 1 to 359 lie in the lake."""
    folder = tmp_path_factory.mktemp("matrix")
    with (
        spanning_module(postgres, template, folder / "tiered") as tiered,
        spanning_module(postgres, template, folder / "kept", keep_heap=True) as kept,
    ):
        for spanning in (tiered, kept):
            spanning.tier()
            spanning.tier()
        yield {TIERED: tiered, TIERED_KEEP_HEAP: kept}


@pytest.mark.conforms("C-115")
def test_every_triple_of_the_contract_has_a_declared_path(both_modes: dict[Mode, Spanning]) -> None:
    assert missing_triples() == ()
    assert len(ROUTES) == len(Operation) * len(MODES) * len(Side)
    told = both_modes[TIERED].query("select operation, mode, side, path, sentence from thermocline.routes")
    assert {(o, m, s): (path, sentence) for o, m, s, path, sentence in told} == {
        (operation, mode.name, side): (route.path, route.sentence) for (operation, mode, side), route in ROUTES.items()
    }


@contextmanager
def _rolled_back(spanning: Spanning) -> Iterator[psycopg.Connection[Any]]:
    session = spanning.session()
    yield session
    session.rollback()


def _places(conn: psycopg.Connection[Any]) -> tuple[frozenset[Any], frozenset[Any], frozenset[Any]]:
    """What the heap's own partitions, the spill and the delta hold."""
    heap = conn.execute("select tableoid::regclass::text, h::text from public.events h").fetchall()
    delta = conn.execute("select _op, id, v from thermocline_delta.public__events where _folded is null").fetchall()
    is_spill = "spill"
    return (
        frozenset(row for row in heap if is_spill not in row[0]),
        frozenset(row for row in heap if is_spill in row[0]),
        frozenset(delta),
    )


def _path_taken(before: tuple[frozenset[Any], ...], after: tuple[frozenset[Any], ...]) -> Path:
    heap, spill, delta = (old != new for old, new in zip(before, after, strict=True))
    return {
        (True, False, False): Path.HEAP,
        (True, False, True): Path.HEAP_AND_DELTA,
        (False, True, True): Path.SPILL,
        (False, False, True): Path.DELTA,
    }[heap, spill, delta]


def _statement(operation: Operation, side: Side) -> str:
    match operation:
        case Operation.INSERT:
            return f"insert into events (id, ts, v) values (9001, '{MOMENTS[side]}', 5)"
        case Operation.UPDATE:
            return f"update events set v = v + 1000 where id = {EXISTING[side]}"
        case _:
            return f"delete from events where id = {EXISTING[side]}"


@pytest.mark.conforms("C-083", "C-084", "C-085", "C-086", "C-087", "C-090", "C-091", "C-094", "C-095", "C-115")
@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("mode", [TIERED, TIERED_KEEP_HEAP], ids=str)
def test_a_write_takes_its_declared_path_and_is_read_back(
    both_modes: dict[Mode, Spanning], mode: Mode, operation: Operation, side: Side
) -> None:
    with _rolled_back(both_modes[mode]) as session:
        before = _places(session)
        session.execute(_statement(operation, side).encode())
        assert _path_taken(before, _places(session)) == ROUTES[operation, mode, side].path
        number = 9001 if operation is Operation.INSERT else EXISTING[side]
        expected = {Operation.INSERT: [(5,)], Operation.UPDATE: [(number + 1000,)], Operation.DELETE: []}[operation]
        assert session.execute("select v from events where id = %s", [number]).fetchall() == expected


@pytest.mark.conforms("C-104", "C-115")
@pytest.mark.parametrize(
    ("mode", "side"), [(TIERED, Side.RECENT), (TIERED_KEEP_HEAP, Side.RECENT), (TIERED_KEEP_HEAP, Side.HISTORICAL)]
)
def test_a_bulk_load_by_copy_takes_its_declared_path(both_modes: dict[Mode, Spanning], mode: Mode, side: Side) -> None:
    with _rolled_back(both_modes[mode]) as session:
        before = _places(session)
        with session.cursor() as cursor, cursor.copy("copy public.events (id, ts, v) from stdin") as copy:
            for number in range(9001, 9011):
                copy.write_row((number, MOMENTS[side], number))
        assert _path_taken(before, _places(session)) == ROUTES[Operation.BULK_LOAD, mode, side].path
        assert session.execute("select count(*), min(v) from events where id > 9000").fetchall() == [(10, 9001)]


@pytest.mark.conforms("C-111", "C-115")
@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("mode", [TIERED, TIERED_KEEP_HEAP], ids=str)
def test_a_read_takes_its_declared_path(both_modes: dict[Mode, Spanning], mode: Mode, side: Side) -> None:
    spanning = both_modes[mode]
    (table,) = explain(spanning.dsn, f"select * from public_all.events where ts = '{MOMENTS[side]}'").tables
    (path,) = table.paths
    assert (path.side, path.path) == (side, ROUTES[Operation.READ, mode, side].path)
    assert (path.path == Path.LAKE_AND_DELTA) == bool(table.questions)
    spanning.assert_same_rows()
