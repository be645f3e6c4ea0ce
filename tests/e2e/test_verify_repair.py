"""verify --repair and the background verifier: what differs is found without asking, and corrected from the heap when
its name is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from prometheus_client import generate_latest
from tests.twin import Spanning

from thermocline.api.catalog_metrics import catalog_registry
from thermocline.catalog.verified_ranges import read_drift
from thermocline.errors import NothingToRepairFrom
from thermocline.ops.verify.background import verify_next_range
from thermocline.ops.verify.repair import check_repairable
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker


def _harm(spanning: Spanning) -> None:
    """February's heap changes behind the capture trigger's back: one row changed, one deleted, one added."""
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("alter table public.events_2026_02 disable trigger thermocline_capture")
        for schema in ("public", "twin"):
            for statement in (
                f"update {schema}.events set v = 4711 where id = 150",
                f"delete from {schema}.events where id = 151",
                f"insert into {schema}.events (id, ts, v) values (9151, '2026-02-20 00:00+00', 1)",
            ):
                conn.execute(statement.encode())
        conn.execute("alter table public.events_2026_02 enable trigger thermocline_capture")


def _command(spanning: Spanning, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thermocline", "verify", "public.events", "--dsn", spanning.dsn, *more]
    return subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.conforms("C-199")
def test_repair_rewrites_only_the_differing_range_after_the_name_was_given(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    _harm(spanning)
    assert [verdict.drift_rows for verdict in verify(spanning.dsn, spanning.name).ranges] == [0, 0, 3, 0]
    refused = _command(spanning, "--repair", "--yes", "public.event")
    assert (refused.returncode, "is not repaired" in refused.stderr) == (3, True)
    assert spanning.query("select count(*) from thermocline_delta.public__events") == [(0,)]
    done = _command(spanning, "--repair", "--yes", "public.events", "--json")
    assert done.returncode == 0, done.stderr
    assert "3 corrections repair public.events_2026_02" in done.stderr
    assert json.loads(done.stdout)[0]["ok"]
    touched = spanning.query("select id, _op from thermocline_delta.public__events order by id")
    assert touched == [(150, 0), (151, 1), (9151, 0)]
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact


@pytest.mark.conforms("C-199")
@pytest.mark.parametrize("is_whole", [True, False], ids=["of the old range", "of a part of it"])
def test_a_partition_made_below_the_cut_line_is_no_proof_that_history_was_deleted(
    spanning: Spanning, is_whole: bool
) -> None:
    """A reader keeps the new partition in the heap: verify meets it, with a row or two where the lake has a month."""
    spanning.tier()
    spanning.tier()
    spanning.both("insert into events (id, ts, v) values (9100, '2019-03-05 00:00+00', 1) returning *")
    spanning.fold()
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    assert reader.execute("select count(*) from thermocline.tables").fetchall()
    heap = spanning.session("public", autocommit=True)
    heap.execute(
        "create table public.gap partition of public.events for values from ('2019-01-01 00:00Z') to "
        "('2020-01-01 00:00Z')"
    )
    until = "2026-02-01" if is_whole else "2026-01-20"
    heap.execute(
        (
            "create table public.anew partition of public.events for values from ('2026-01-01 00:00Z') to "
            f"('{until} 00:00Z')"
        ).encode()
    )
    spanning.both(
        "insert into events (id, ts, v) values (9101, '2026-01-05 00:00+00', 1), (9102, '2019-04-05 "
        "00:00+00', 1) returning *"
    )
    spanning.tier()
    assert spanning.query(
        "select count(*) from thermocline.partitions where name in ('gap', 'anew') and state = 'tiered'"
    ) == [(2,)]
    done = _command(spanning, "--repair", "--yes", "public.events")
    assert done.returncode == 0, done.stderr
    spanning.assert_same_rows()
    reader.rollback()
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-199")
@pytest.mark.parametrize(
    "way", ["drop table public.events_2026_02", "alter table public.events detach partition public.events_2026_02"]
)
def test_with_keep_heap_a_partition_dropped_by_hand_is_no_proof_that_its_rows_were_deleted(
    make_spanning: Callable[..., Spanning], way: str
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    _harm(spanning)
    heap = spanning.session("public", autocommit=True)
    heap.execute(way.encode())
    shown = spanning.query("select count(*) from events where ts < '2026-04-01 00:00+00'")
    for _ in range(2):
        done = _command(spanning, "--repair", "--yes", "public.events")
        assert done.returncode == 1
        assert "112 rows that the heap lacks stay in the lake" in done.stderr
        spanning.tier()
    spanning.fold()
    assert spanning.query("select count(*) from events where ts < '2026-04-01 00:00+00'") == shown


@pytest.mark.conforms("C-199")
def test_a_partition_that_was_out_of_the_table_for_a_time_proves_no_delete(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    heap = spanning.session("public", autocommit=True)
    heap.execute(
        "alter table public.events detach partition public.events_2026_02; delete from public.events_2026_02 "
        "where id < 130"
    )
    heap.execute("update public.events_2026_02 set v = 4711 where id = 150")
    heap.execute(
        "alter table public.events attach partition public.events_2026_02 for values from ('2026-02-01 "
        "00:00Z') to ('2026-03-01 00:00Z')"
    )
    spanning.twin.execute("update events set v = 4711 where id = 150")
    done = _command(spanning, "--repair", "--yes", "public.events")
    assert (done.returncode, "rows that the heap lacks stay in the lake" in done.stderr) == (1, True)
    spanning.assert_same_rows()


@pytest.mark.conforms("C-199")
def test_a_range_that_only_the_lake_holds_is_not_repaired(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    exact = verify(spanning.dsn, spanning.name)
    assert check_repairable(exact) == ()
    spanning.query(
        "update thermocline.op_log set counters = jsonb_set(counters, '{sums,0,rows}', '1') where kind = "
        "'tier' returning 1"
    )
    with pytest.raises(NothingToRepairFrom, match="cannot be repaired from its heap"):
        check_repairable(verify(spanning.dsn, spanning.name))


@pytest.mark.conforms("C-200", "O-088")
def test_the_worker_compares_one_range_per_cycle_and_exports_drift(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    _harm(spanning)
    eager = spanning.settings.model_copy(update={"verify_interval_seconds": 0.0})
    worker = Worker(spanning.dsn, eager)
    compared = []
    with connect(spanning.dsn, autocommit=True) as conn:
        assert verify_next_range(conn, spanning.dsn, 3600) is None
        for _ in range(5):
            assert worker.run_cycle(conn)
            compared.append(
                spanning.query("select range, drift_rows from thermocline.verified order by at desc limit 1")[0]
            )
        ((events,),) = conn.execute("select count(*) from thermocline.events where action = 'verify'").fetchall()
        (drift,) = read_drift(conn)
    names = [
        "before every partition",
        *(f"public.events_2026_0{month}" for month in (1, 2, 3)),
        "before every partition",
    ]
    assert compared == list(zip(names, [0, 0, 3, 0, 0], strict=True))
    assert (drift.rows, drift.failed_ranges, events) == (3, 1, 1)
    text = generate_latest(catalog_registry(spanning.settings)).decode()
    assert 'thermocline_verify_drift_rows{table="public.events"} 3.0' in text
    assert 'thermocline_verify_last_range_timestamp_seconds{table="public.events"}' in text


@pytest.mark.conforms("O-086")
def test_pins_are_exported(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning()
    spanning.query(
        "select thermocline.pin('public.events'), thermocline.pin('public.events'), "
        "thermocline.pin('public.events', '1 microsecond')"
    )
    with connect(spanning.dsn, autocommit=True) as conn:
        assert Worker(spanning.dsn, spanning.settings).run_cycle(conn)
    text = generate_latest(catalog_registry(spanning.settings)).decode()
    assert 'thermocline_pins{table="public.events"} 2.0' in text
    assert 'thermocline_oldest_pin_seconds{table="public.events"}' in text
    assert 'thermocline_expired_pins_deleted_total{table="public.events"} 1.0' in text
