"""`thermocline truncate`: both tiers lose every row at one moment; afterwards the table still spans and is empty."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.cloned_tables import ClonableTable, make_clonable
from tests.commands import run_json_command
from tests.e2e.truncation import assert_lake_is_empty, truncate_both, truncate_spanning
from tests.twin import Spanning, assert_same_rows, run

from thermocline.catalog import journal
from thermocline.cli.main import run as run_command
from thermocline.errors import LockNotGranted, NotTruncated, Paused
from thermocline.ops.admin.pause import pause
from thermocline.ops.truncate import truncate
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect
from thermocline.runtime.postgres_server import PostgresServer

CUT = "select t, s, r from thermocline.cutline"


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    """January to March in the lake, April in the heap."""
    with make_clonable(postgres, template, tmp_path_factory.mktemp("truncate")) as made:
        yield made


@pytest.fixture
def spanning(tiered: ClonableTable) -> Iterator[Spanning]:
    """A table with pending corrections and a row in the spill."""
    with tiered.clone() as made:
        made.both("update events set v = v + 1 where id % 50 = 0 returning *")
        made.both("delete from events where id % 60 = 0 returning id")
        made.both("insert into events (id, ts, v) values (9001, '2025-06-01', 5) returning *")
        yield made


@pytest.mark.conforms("C-173")
def test_every_row_of_both_tiers_goes_and_the_table_spans_on(spanning: Spanning) -> None:
    ((t, s, r),) = spanning.query(CUT)
    assert truncate_spanning(spanning, dry_run=True).sentence.startswith("public.events would lose")
    spanning.assert_same_rows()
    report = truncate_both(spanning)
    assert (report.heap_rows > 0, report.corrections > 0, report.lake_rows > 0, report.lake_files > 0) == (True,) * 4
    assert spanning.query("select count(*) from public_all.events") == [(0,)]
    assert_lake_is_empty(spanning)
    assert spanning.query(CUT) == [(t, report.snapshot, r)]
    assert report.snapshot != s
    assert spanning.query("select phase from thermocline.op_log where kind = 'truncate'") == [("published",)]
    assert verify(spanning.dsn, spanning.name).is_exact
    again = truncate_spanning(spanning)
    assert (again.heap_rows, again.corrections, again.lake_files, again.snapshot) == (0, 0, 0, None)
    spanning.both(
        "insert into events (id, ts, v)"
        " select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i from generate_series(1, 500) i"
    )
    spanning.both("update events set v = v + 1 where id % 3 = 0 returning *")
    spanning.assert_same_rows()
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact


@pytest.mark.conforms("C-173")
def test_a_reader_from_before_keeps_all_rows_and_one_from_after_has_none(spanning: Spanning) -> None:
    """Never the rows of one tier alone."""
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute("select count(*) from twin.events").fetchall()
    truncate_both(spanning)
    assert reader.execute("select count(*) from public_all.events").fetchall() == before
    assert_same_rows(reader)
    reader.commit()
    assert reader.execute("select count(*) from public_all.events").fetchall() == [(0,)]


def test_a_writer_in_flight_is_not_waited_for_beyond_the_timeout(spanning: Spanning) -> None:
    writer = spanning.session()
    writer.execute("insert into events (id, ts, v) values (9002, '2026-04-02', 1)")
    with pytest.raises(LockNotGranted, match=r"truncate public\.events"):
        truncate_spanning(spanning)
    assert spanning.query("select phase from thermocline.op_log where kind = 'truncate'") == [("abandoned",)]
    spanning.assert_same_rows()
    writer.rollback()
    truncate_both(spanning)


@pytest.mark.parametrize("row", [17, 100, 9001, 390], ids=["lake", "corrected", "spill", "heap"])
def test_a_transaction_whose_snapshot_is_older_runs_again(spanning: Spanning, row: int) -> None:
    """It sees the row, which is gone: as on an ordinary table, it may not write it back."""
    assert spanning.both(f"select id from events where id = {row}") == [(row,)]
    statements = ("update events set v = v + 1 where id = %s", "delete from events where id = %s")
    sessions = [(spanning.session(), statement) for statement in statements]
    for old, _ in sessions:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
    truncate_both(spanning)
    for old, statement in sessions:
        assert run(old, statement, [row]).state == psycopg.errors.SerializationFailure.sqlstate, statement
    spanning.assert_same_rows()


def test_a_statement_that_began_before_runs_again(spanning: Spanning) -> None:
    """At READ COMMITTED: it has found the row of the lake, and writes it after the truncation."""
    gate, outcome = spanning.session("public", autocommit=True), []
    gate.execute("select pg_advisory_lock(99)")
    writer = spanning.session(autocommit=True)
    waiting = "update events set v = v + 1 where id = 17 and (select pg_advisory_lock(99) is not null)"
    thread = threading.Thread(target=lambda: outcome.append(run(writer, waiting)))
    thread.start()
    while not spanning.query("select 1 from pg_locks where locktype = 'advisory' and objid = 99 and not granted"):
        assert thread.is_alive()
    truncate_both(spanning)
    gate.execute("select pg_advisory_unlock(99)")
    thread.join()
    assert outcome[0].state == psycopg.errors.SerializationFailure.sqlstate
    spanning.assert_same_rows()


def test_a_kept_heap_is_emptied_too(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 30 returning *")
    report = truncate_both(spanning)
    assert report.heap_rows == 400
    assert spanning.query("select count(*) from public.events") == [(0,)]
    spanning.both("insert into events (id, ts, v) values (1, '2026-01-05 00:00+00', 1), (2, '2026-04-05 00:00+00', 2)")
    spanning.fold()
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact


def test_a_table_that_others_refer_to_or_whose_trigger_keeps_rows_is_not_truncated(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    spanning.seam.execute(
        "create table public.notes (id bigint, ts timestamptz, foreign key (id, ts) references public.events)"
    )
    with pytest.raises(NotTruncated, match="notes refers to it by the foreign key notes_id_ts_fkey"):
        truncate_spanning(spanning)
    spanning.seam.execute("drop table public.notes")
    spanning.seam.execute(
        "create function public.keep() returns trigger language plpgsql as"
        " $$begin if old.id = 17 then return null; end if; return old; end$$;"
        "create trigger keep before delete on public.events for each row execute function public.keep();"
        "alter table public.events enable always trigger keep"
    )
    with pytest.raises(NotTruncated, match="a trigger of its own kept 1 rows"):
        truncate_spanning(spanning)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


def test_a_dry_run_waits_for_no_writer_and_starts_no_spark(spanning: Spanning) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("a dry run needs no Spark")

    table = spanning.query("select id from thermocline.tables")[0][0]
    with connect(spanning.dsn, autocommit=True) as conn, journal.table_lock(conn, table, "events"):
        told = truncate(spanning.dsn, spanning.name, settings=spanning.settings, spark=no_spark, dry_run=True)
    done = truncate_spanning(spanning)
    assert (told.heap_rows, told.corrections) == (done.heap_rows, done.corrections)
    assert (told.lake_rows, told.lake_files) == (done.lake_rows, done.lake_files)
    assert done.lake_files > 0


def test_a_dry_run_of_a_paused_table_is_refused_as_the_command_is(spanning: Spanning) -> None:
    pause(spanning.dsn, spanning.name)
    for dry_run in (True, False):
        with pytest.raises(Paused):
            truncate_spanning(spanning, dry_run=dry_run)


def test_the_command_waits_for_the_cycle_that_holds_the_table(spanning: Spanning) -> None:
    table = spanning.query("select id from thermocline.tables")[0][0]
    waiting = threading.Event()

    def note(told: object) -> None:
        if told == "waiting for the table's writer":
            waiting.set()

    with ThreadPoolExecutor(1) as pool:
        with connect(spanning.dsn, autocommit=True) as conn, journal.table_lock(conn, table, "events"):
            running = pool.submit(
                truncate,
                spanning.dsn,
                spanning.name,
                settings=spanning.settings,
                spark=spanning.spark,
                report_progress=note,
            )
            assert waiting.wait(60)
            assert not running.done()
        assert running.result(60).heap_rows > 0
    assert spanning.query("select count(*) from public_all.events") == [(0,)]


@pytest.mark.conforms("O-006")
def test_the_command_asks_for_the_tables_name(spanning: Spanning, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--dsn", spanning.dsn, "--dir", str(spanning.settings.dir), "--json"]
    for given in ([], ["--yes", "public.others"]):
        with pytest.raises(SystemExit) as leaving:
            run_command(["truncate", "public.events", *given, *common])
        assert leaving.value.code == 3
        assert "public.events is not truncated: its name was not given" in capsys.readouterr().err
    assert run_json_command(capsys, "truncate", "public.events", "--dry-run", *common)["dry_run"] is True
    spanning.assert_same_rows()
    told = run_json_command(capsys, "truncate", "public.events", "--yes", "public.events", *common)
    assert told["sentence"].startswith("public.events lost ")
    assert spanning.query("select count(*) from public_all.events") == [(0,)]
