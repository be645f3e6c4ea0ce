"""Folding against writers, readers, kinds of keys and odd histories: the same rows before and after, in the lake alone
at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.commands import run_json_command
from tests.fault_points import patch_fault_points
from tests.twin import Spanning

from thermocline.cli.main import run
from thermocline.errors import UnrepresentableValue
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker

DELTA = "thermocline_delta.public__events"


def cold(spanning: Spanning) -> Spanning:
    """Three months in the lake and none of them in the heap."""
    spanning.tier()
    assert len(spanning.tier().deferred) == 0
    return spanning


def correct(spanning: Spanning) -> None:
    """Updates, deletes, historical inserts and moves between months and tiers, all of them below the cut-line."""
    spanning.both(
        "update events set v = v + 1000, note = 'corrected', tags = array['x', null], doc = '{\"a\": "
        "[1.50]}' where id in (17, 130, 300)"
    )
    spanning.both("update events set amount = 9999999999.99, note = null where id between 40 and 60")
    spanning.both("delete from events where id in (18, 140, 310)")
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5), (9002, '2026-01-16 "
        "12:00:00.000001+00', 6)"
    )
    spanning.both("update events set ts = ts + interval '1 month' where id in (20, 21)")
    spanning.both("update events set ts = '2026-04-20 00:00+00' where id = 22")


def assert_folded(spanning: Spanning) -> None:
    """Nothing is pending or spilled below the cut-line, and the lake alone holds exactly the twin's rows below it."""
    spanning.assert_same_rows()
    assert spanning.query(f"select count(*) from {DELTA} where _folded is null and ts < '2026-04-01 00:00+00'") == [
        (0,)
    ]
    assert spanning.query("select count(*) from public.events where ts < '2026-04-01 00:00+00'") == [(0,)]
    lake = (
        spanning.spark()
        .sql("select count(*), sum(v), sum(id), sum(amount), count(note) from thermocline.public.events")
        .collect()
    )
    (expected,) = spanning.twin.execute(
        "select count(*), sum(v), sum(id), sum(amount), count(note) from events where ts < '2026-04-01 00:00+00'"
    ).fetchall()
    assert tuple(lake[0]) == expected


@pytest.mark.conforms("C-122", "C-130", "C-135")
def test_corrections_read_the_same_before_and_after_the_fold(spanning: Spanning) -> None:
    cold(spanning)
    correct(spanning)
    spanning.assert_same_rows()
    pending = spanning.query(f"select count(*) from {DELTA} where _folded is null and ts < '2026-04-01 00:00+00'")[0][0]
    before = spanning.query("select t, epoch from thermocline.cutline")
    report = spanning.fold()
    assert (report.commits, report.rows, report.left) == (1, pending, 0)
    assert spanning.query("select t, epoch from thermocline.cutline") == before
    assert spanning.query("select s from thermocline.cutline") == [(report.snapshot,)]
    assert_folded(spanning)
    assert spanning.query(f"select count(*) from {DELTA} where ts < '2026-04-01 00:00+00'") == [(0,)]
    assert spanning.fold().commits == 0


@pytest.mark.conforms("C-125", "C-130", "C-131")
def test_writers_and_old_readers_at_every_step_of_a_fold_lose_nothing(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers change folded, unfolded and untouched rows between any two steps; readers from before and between keep
    what they saw."""
    cold(spanning)
    correct(spanning)
    steps: list[str] = []
    readers: list[tuple[psycopg.Connection[Any], list[tuple[Any, ...]]]] = []

    def write(point: str) -> None:
        steps.append(point)
        readers.append(open_reader(spanning))
        number = len(steps)
        spanning.both(f"update events set v = v + 1, note = '{point}' where id in (17, 45, {200 + number}) returning *")
        spanning.both(f"delete from events where id in ({50 + number}, {220 + number}) returning id")
        spanning.both(f"insert into events (id, ts, v) values ({7000 + number}, '2026-02-11 00:00+00', 1) returning *")
        spanning.both(f"update events set ts = ts + interval '1 month' where id = {60 + number} returning *")
        spanning.assert_same_rows()

    patch_fault_points(monkeypatch, write)
    readers.append(open_reader(spanning))
    report = spanning.fold(drain=False)
    assert steps == ["fold-intent", "fold-written", "fold-committed", "fold-committed-noted", "fold-published"]
    assert "may still read it" in report.deferred[0]
    monkeypatch.undo()
    spanning.assert_same_rows()
    spanning.fold()
    for reader, before in readers:
        assert reader.execute("select count(*), sum(v), sum(id) from events").fetchall() == before
        reader.commit()
    assert spanning.query(f"select count(*) > 20 from {DELTA} where _folded is not null") == [(True,)]
    spanning.fold()
    assert spanning.query(f"select count(*) from {DELTA} where _folded is not null") == [(0,)]
    assert_folded(spanning)


def open_reader(spanning: Spanning) -> tuple[psycopg.Connection[Any], list[tuple[Any, ...]]]:
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    return reader, reader.execute("select count(*), sum(v), sum(id) from twin.events").fetchall()


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_of_two_writers_of_one_cold_row_with_a_fold_between_one_is_told_to_retry(
    spanning: Spanning, level: str
) -> None:
    """The second writer's statement has its snapshot before the first one's commit and meets the row after the fold."""
    cold(spanning)
    gate, second = spanning.session(autocommit=True), spanning.session()
    gate.execute("select pg_advisory_lock(42)")
    failures: list[BaseException] = []

    def update_late() -> None:
        try:
            second.execute(f"set transaction isolation level {level}".encode())
            second.execute(
                "with w as materialized (select pg_advisory_xact_lock(42)) update events set v = v + 1 from "
                "w where id in (17, 170)"
            )
            second.commit()
        except psycopg.Error as problem:
            failures.append(problem)
            second.rollback()

    thread = threading.Thread(target=update_late)
    thread.start()
    wait_until_blocked(gate)
    spanning.both("update events set v = v + 1 where id = 17")
    assert spanning.fold().rows == 1
    gate.execute("select pg_advisory_unlock(42)")
    thread.join()
    assert [getattr(problem, "sqlstate", None) for problem in failures] == ["40001"]
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (17, 170)")
    spanning.fold()
    assert_folded(spanning)


def wait_until_blocked(conn: psycopg.Connection[Any]) -> None:
    for _ in range(200):
        if conn.execute(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        ).fetchone() == (True,):
            return
        time.sleep(0.05)
    raise AssertionError("nobody waits for the lock")


KEYS = """
create table {schema}.events (
    day date not null, ref uuid not null, label text not null, amount numeric not null, at time not null, v integer,
    primary key (label, ref, amount, at, day))"""
KEYS_PARTITIONS = """
create table public.events_1 partition of public.events for values from ('2026-01-01') to ('2026-02-01');
create table public.events_2 partition of public.events for values from ('2026-02-01') to ('2026-04-01');
create table public.events_3 partition of public.events for values from ('2026-04-01') to ('2026-05-01');"""
KEYS_ROWS = """
insert into events
select date '2026-01-01' + i % 92, md5((i % 7)::text)::uuid, 'k' || chr(9) || (i % 5), (i || '.0')::numeric,
       time '00:00' + i * interval '1 s', i
  from generate_series(0, 299) i"""


@pytest.mark.conforms("C-126", "C-134")
def test_composite_keys_of_every_kind_match_themselves_whatever_their_spelling(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(table=KEYS, partitions=KEYS_PARTITIONS, partition_by="range (day)", rows=KEYS_ROWS)
    spanning.tier()
    spanning.tier()
    spanning.both("update events set v = v + 1 where v % 3 = 0 returning *")
    spanning.both("delete from events where v % 3 = 2 returning v")
    spanning.both("with gone as (delete from events where v = 100 returning *) select * from gone")
    spanning.both("insert into events select day, ref, label, 99.000, at, 7 from events where v = 40")
    # One key in two spellings: 42.0 is deleted, 42.00 is the same key and comes back under it.
    spanning.both("delete from events where amount = 42 returning amount")
    spanning.both(
        "insert into events values (date '2026-01-01' + 42 % 92, md5((42 % 7)::text)::uuid, 'k' || chr(9) || "
        "(42 % 5), 42.00,"
        " time '00:00' + 42 * interval '1 s', 1)"
    )
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query(f"select count(*) from {DELTA} where _folded is null and day < '2026-04-01'") == [(0,)]


@pytest.mark.conforms("C-130")
def test_rows_folded_again_and_again_are_deleted_once_each_and_a_backlog_drains_in_several_commits(
    spanning: Spanning,
) -> None:
    cold(spanning)
    for round_number in range(3):
        spanning.both(f"update events set v = v + 1, note = 'round {round_number}' where id between 1 and 300")
        report = spanning.fold(max_rows=100)
        assert (report.commits > 1, report.rows, report.replaced, report.left) == (True, 300, 300, 0)
        assert report.rows_per_second > 0
    assert_folded(spanning)
    deleted = (
        spanning.spark()
        .sql("select count(*), count(distinct file_path, pos) from thermocline.public.events.position_deletes")
        .collect()
    )
    assert tuple(deleted[0]) == (900, 900)


def test_a_fold_into_a_lake_without_rows_and_of_rows_the_lake_never_had(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(rows="insert into events (id, ts, v) values (1, '2026-04-10 00:00+00', 1)")
    spanning.tier()
    assert spanning.fold().commits == 0
    spanning.both("insert into events (id, ts, v) values (2, '2026-01-10 00:00+00', 2), (3, '2019-01-10 00:00+00', 3)")
    spanning.both("insert into events (id, ts, v) values (4, '2026-01-10 00:00+00', 2)")
    spanning.both("delete from events where id = 4")
    report = spanning.fold()
    assert (report.commits, report.rows, report.images, report.replaced) == (1, 3, 2, 0)
    assert_folded(spanning)
    spanning.both("insert into events (id, ts, v) values (5, '2026-01-10 00:00+00', 2)")
    spanning.both("delete from events where id = 5")
    before = spanning.query("select s from thermocline.cutline")
    assert (spanning.fold().rows, spanning.query("select s from thermocline.cutline")) == (1, before)
    assert_folded(spanning)


def test_a_fold_takes_rows_out_of_the_spill_unnoticed_and_skips_rows_that_a_writer_holds(spanning: Spanning) -> None:
    cold(spanning)
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("create table public.noticed (id bigint)")
        conn.execute(
            "create function public.notice() returns trigger language plpgsql as"
            " $$begin insert into public.noticed values (old.id); return null; end$$"
        )
        conn.execute(
            "create trigger notice after delete on public.events for each row execute function public.notice()"
        )
    spanning.both("update events set v = v + 1 where id in (17, 18, 19)")
    writer = spanning.session("public")
    writer.execute("update events set v = v + 5 where id = 18")
    report = spanning.fold()
    assert report.rows == 3
    assert spanning.query("select id from public.events where ts < '2026-04-01 00:00+00'") == [(18,)]
    assert spanning.query(f"select id from {DELTA} where _folded is null") == [(18,)]
    spanning.assert_same_rows()
    writer.commit()
    spanning.twin.execute("update events set v = v + 5 where id = 18")
    spanning.assert_same_rows()
    assert spanning.fold().rows == 1
    assert spanning.query("select count(*) from public.noticed") == [(0,)]
    assert_folded(spanning)


def test_a_value_without_a_lake_form_stops_the_fold_with_its_row_named_and_goes_on_once_it_is_gone(
    spanning: Spanning,
) -> None:
    cold(spanning)
    spanning.both(
        "insert into events (id, ts, v, amount) values (9001, '2026-01-05 12:00+00', 5, 'NaN'), (9002, "
        "'2026-01-06 12:00+00', 5, 1)"
    )
    with pytest.raises(
        UnrepresentableValue,
        match=r"public\.events, row \(id, ts\) = \(9001, 2026-01-05 12:00:00\+00\): Column amount .* holds NaN",
    ):
        spanning.fold()
    spanning.assert_same_rows()
    spanning.both("update events set amount = 2 where id = 9001")
    assert spanning.fold().rows == 2
    assert_folded(spanning)


def test_a_dry_run_tells_what_would_be_folded_and_changes_nothing(spanning: Spanning) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 20")
    before = spanning.query("select t, s, fence from thermocline.cutline")
    report = spanning.fold(dry_run=True)
    assert report.plan[0].startswith("fold 19 corrections (2026-01-01 06:00:00+00 to 2026-04-01 00:00:00+00) in ")
    assert spanning.query("select t, s, fence from thermocline.cutline") == before


def test_the_heap_of_a_keep_heap_table_stays_whole_over_a_fold(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 100")
    spanning.both("insert into events (id, ts, v) values (9001, '2019-11-16 12:00+00', 5)")
    spanning.both("delete from events where id = 120")
    assert spanning.fold().rows == 101
    spanning.assert_same_rows()
    assert spanning.query("select * from public.events except all select * from twin.events") == []
    assert spanning.query("select * from twin.events except all select * from public.events") == []
    spanning.both("update events set v = v + 1 where id in (9001, 17)")
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-129")
def test_the_worker_folds_when_enough_waits_or_long_enough_and_never_commits_twice_in_a_cycle(
    spanning: Spanning,
) -> None:
    patient = Worker(
        spanning.dsn, spanning.settings.model_copy(update={"fold_min_rows": 10, "fold_interval_seconds": 3600})
    )
    with connect(spanning.dsn, autocommit=True) as conn:
        spanning.both(
            "insert into events (id, ts, v) select i, '2025-06-01 00:00+00', 1 from generate_series(501, 520) i"
        )
        assert patient.run_cycle(conn)
        assert kinds(spanning) == ["tier"]
        assert patient.run_cycle(conn)
        assert kinds(spanning) == ["tier", "fold"]
        spanning.both("update events set v = v + 1 where id in (17, 503)")
        assert patient.run_cycle(conn)
        assert kinds(spanning) == ["tier", "fold"]
        hasty = Worker(spanning.dsn, spanning.settings.model_copy(update={"fold_interval_seconds": 0}))
        assert hasty.run_cycle(conn)
        assert kinds(spanning) == ["tier", "fold", "fold"]
    assert_folded(spanning)


def kinds(spanning: Spanning) -> list[str]:
    return [
        kind
        for (kind,) in spanning.query(
            "select kind from thermocline.op_log where phase = 'published' order by started_at"
        )
    ]


def test_the_command_folds_tells_the_rate_and_refuses_a_table_it_does_not_know(
    spanning: Spanning, capsys: pytest.CaptureFixture[str]
) -> None:
    cold(spanning)
    spanning.both("update events set v = v + 1 where id < 30")
    common = ["--dsn", spanning.dsn, "--dir", str(spanning.settings.dir), "--json"]
    planned = run_json_command(capsys, "fold", "public.events", *common, "--dry-run")
    assert planned["left"] == 29
    told = run_json_command(capsys, "fold", "public.events", *common)
    assert (told["rows"], told["commits"], told["left"]) == (29, 1, 0)
    assert told["rows_per_second"] > 0
    assert (
        f"folded 29 corrections (29 images, 29 rows replaced or deleted in the lake) at {told['rows_per_second']:,.0f}"
        in told["sentence"]
    )
    assert run_json_command(capsys, "fold", "public.events", *common)["sentence"] == "public.events: nothing to fold."
    with pytest.raises(SystemExit) as leaving:
        run(["fold", "public.nothing", *common])
    assert leaving.value.code == 3
    assert_folded(spanning)


def test_keys_that_their_index_holds_equal_are_one_row_whatever_their_bytes(
    database: str, make_spanning: Callable[..., Spanning]
) -> None:
    with connect(database, autocommit=True) as conn:
        conn.execute(
            "create collation public.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    spanning = make_spanning(
        table="create table {schema}.events (k text collate public.any_case, n numeric, f float8, ts timestamptz, "
        "v integer,"
        " primary key (k, n, f, ts))",
        rows="insert into events select 'key', 1.0, '-0', '2026-01-01 00:00+00'::timestamptz + i * interval '12 "
        "hours', i"
        " from generate_series(1, 200) i",
    )
    cold(spanning)
    spanning.alter("add column more integer default 3")
    spanning.both("update events set k = 'KEY', n = 1.00, f = '0' where v in (5, 195) returning *")
    spanning.both("delete from events where v = 6 and k = 'KEY' returning *")
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    spanning.both("update events set v = 7000 where k = 'Key' and ts < '2026-01-10 00:00+00'")
    spanning.fold()
    spanning.assert_same_rows()
