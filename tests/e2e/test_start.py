"""Registration moves nothing: `start` lets partitions move by themselves, `stop` ends it, `tier` works by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.commands import CommandResult, RunCommand, run_command
from tests.e2e.adoption import adopt_lake, unregister_spanning
from tests.twin import Spanning

from thermocline.core.plan.tier import render_next
from thermocline.ops.admin.pause import pause, resume
from thermocline.ops.admin.start_stop import start, stop
from thermocline.ops.inspect.overview import read_detail
from thermocline.ops.spanning_table import read_spanning
from thermocline.ops.tier.observe_table import observe
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker

LINES = "select t, s, seam_line, r from thermocline.cutline"
STARTED = "select started_at is not null from thermocline.tables"
HEAP = "select relname from pg_inherits join pg_class on oid = inhrelid where inhparent = 'public.events'::regclass"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, spanning: Spanning) -> RunCommand:
    """Runs a command on a table that is registered and not started."""
    stop(spanning.dsn, spanning.name)
    for key in ("dsn", "warehouse", "gateway_listen"):
        monkeypatch.setenv(f"THERMOCLINE_{key.upper()}", str(getattr(spanning.settings, key)))

    def run(*arguments: str) -> CommandResult:
        done = run_command(capsys, *arguments)
        assert done.code == 0, done.err
        return done

    return run


def run_cycle(spanning: Spanning, **settings: object) -> None:
    """What a worker does by itself."""
    worker = Worker(spanning.dsn, spanning.settings.model_copy(update=settings))
    with connect(spanning.dsn, autocommit=True) as conn:
        assert worker.run_cycle(conn)


@pytest.mark.conforms("C-221")
def test_a_registered_table_moves_nothing_by_itself_until_it_is_started(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(start=False)
    before = spanning.query(LINES), sorted(spanning.query(HEAP))
    for _ in range(2):
        run_cycle(spanning)
    assert (spanning.query(LINES), sorted(spanning.query(HEAP))) == before
    cycle = read_detail(spanning.dsn, spanning.name).cycle
    assert cycle is not None
    assert any("nothing moves by itself before `thermocline start public.events`" in said for said in cycle.deferred)
    assert start(spanning.dsn, spanning.name).changed
    assert not start(spanning.dsn, spanning.name).changed
    run_cycle(spanning)
    assert read_detail(spanning.dsn, spanning.name).overview.cut_line == "2026-04-01 00:00:00+00"
    spanning.assert_same_rows()
    assert [event.sentence for event in read_detail(spanning.dsn, spanning.name).events if "started" in event.sentence]


@pytest.mark.conforms("C-221")
def test_a_stopped_table_folds_and_makes_partitions_and_expires_and_drops_nothing(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="10d", lake_retention="1d", premake=1)
    spanning.tier()
    spanning.age_moves(10)
    assert stop(spanning.dsn, spanning.name).changed
    assert not stop(spanning.dsn, spanning.name).changed
    spanning.both("update events set v = v + 1 where id < 50")
    spanning.both("insert into events (id, ts, v) values (9001, '2026-05-20 00:00+00', 1)")
    heap = set(spanning.query(HEAP))
    for _ in range(2):
        run_cycle(spanning, fold_interval_seconds=0)
    assert heap < set(spanning.query(HEAP)), "partitions were made ahead, and none was dropped"
    assert read_detail(spanning.dsn, spanning.name).overview.pending_corrections == 0
    assert spanning.query("select t = thermocline.axis(timestamptz '2026-04-01Z'), r from thermocline.cutline") == [
        (True, None)
    ]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-221", "C-222")
def test_tier_by_hand_moves_and_drops_once_and_says_what_stays(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(start=False, reclaim_lag="10d")
    report = spanning.tier()
    assert (len(report.moved), report.dropped) == (3, [])
    assert "3 moved partitions stay in the heap until the next `thermocline tier public.events`" in report.sentence
    spanning.age_moves(9)
    assert spanning.tier().dropped == []
    spanning.age_moves(1, "%_2026_02")
    run_cycle(spanning)
    assert len(spanning.query(HEAP)) == 5, "due by now, and it waits"
    assert spanning.tier().dropped == ["public.events_2026_02"]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-222")
def test_with_integer_keys_the_reclaim_lag_counts_from_the_newest_row_at_the_move(
    make_spanning: Callable[..., Spanning],
) -> None:
    grid = "; ".join(
        f"create table public.e{n} partition of public.events for values from ({n}) to ({n + 100})"
        for n in range(0, 900, 100)
    )
    spanning = make_spanning(
        table="create table {schema}.events (id bigint not null, k bigint not null, v text, primary key (id, k))",
        partitions=grid,
        partition_by="range (k)",
        rows="insert into events select i, i, i::text from generate_series(0, 450) i",
        reclaim_lag="200",
    )
    assert (
        len(spanning.tier().moved),
        spanning.query("select distinct moved_key from thermocline.partitions order by 1"),
    ) == (
        4,
        [(450,), (None,)],
    )
    spanning.both("insert into events values (649, 649, 'a')")
    assert spanning.tier().dropped == [], "e0 ends 549 keys below the newest, and was moved 199 keys ago"
    spanning.both("insert into events values (650, 650, 'a')")
    assert spanning.tier().dropped == ["public.e0", "public.e100", "public.e200", "public.e300"]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-221")
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def test_the_partition_that_holds_now_never_moves_whatever_the_clock_of_the_writer(
    make_spanning: Callable[..., Spanning], kind: str, zone: str
) -> None:
    """Rows of the future lie above it, and the lag is 0."""
    now = f"timestamptz '{datetime.now(UTC).isoformat()}' at time zone '{zone}'"
    bounds = ", ".join(f"({now})::date {day:+}" for day in (-3, -2, -1, 0, 1, 2, 5))
    spanning = make_spanning(
        table=f"create table {{schema}}.events (id bigint not null, k {kind} not null, primary key (id, k))",
        partition_by="range (k)",
        partitions=f"""do $$ declare days date[] := array[{bounds}]; begin
            perform set_config('timezone', '{zone}', true);
            for n in 1..6 loop
                execute format('create table public.e%s partition of public.events for values from (%L) to (%L)',
                    n, days[n], days[n + 1]);
            end loop; end $$""",
        rows=f"""set timezone = '{zone}';
            insert into events select i, {now} + make_interval(days => i) from
            generate_series(-3, 3) i; reset timezone""",
    )
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("select set_config('timezone', %s, false)", [zone])
        holds_now = conn.execute(
            "select tableoid::regclass::text from public.events where id = 0",
        ).fetchall()
        spanning.tier()
        moved = {
            str(name) for (name,) in spanning.query("select name from thermocline.partitions where state <> 'hot'")
        }
        assert holds_now[0][0].removeprefix("public.") not in moved
        assert moved
        assert "clock has passed" in render_next(observe(conn, read_spanning(conn, spanning.name)))
    spanning.assert_same_rows()


@pytest.mark.conforms("C-221")
def test_adopting_a_lake_keeps_the_earlier_settings_and_moves_nothing_by_itself(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(
        tiering_lag="20d", reclaim_lag="3d", lake_retention="700d", premake=3, seam_schema="spans", preset="seaweedfs"
    )
    spanning.seam.execute("set search_path = spans, public")
    spanning.tier()
    kept = "select mode, tiering_lag, reclaim_lag, lake_retention, partition_width, premake, seam_schema,"
    kept += " maintenance_policy from thermocline.tables"
    before, heap = spanning.query(kept), sorted(spanning.query(HEAP))
    unregister_spanning(spanning)
    report = adopt_lake(spanning, premake=None, start=False)
    assert (report.is_started, report.seam) == (False, "spans.events")
    assert spanning.query(kept) == before
    run_cycle(spanning)
    assert set(heap) <= set(spanning.query(HEAP))
    unregister_spanning(spanning)
    adopt_lake(spanning, premake=None, reclaim_lag="9d", lake_retention="none", start=False)
    assert spanning.query("select tiering_lag / 86400000000, reclaim_lag / 86400000000, lake_retention, premake"
                          " from thermocline.tables") == [(20, 9, None, 3)]  # fmt: skip


@pytest.mark.conforms("C-221")
def test_adopting_the_lake_of_a_kept_heap_keeps_the_heap_unless_the_mode_is_given(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    for request, mode in (({}, "tiered keep-heap"), ({"mode": "tiered"}, "tiered")):
        unregister_spanning(spanning)
        adopt_lake(spanning, **request)
        assert spanning.query("select mode from thermocline.tables") == [(mode,)]


@pytest.mark.conforms("C-221")
def test_the_preview_of_register_is_what_tier_plans_and_then_moves(spanning: Spanning, command: RunCommand) -> None:
    unregister_spanning(spanning)
    first = command("register", "public.events", "--dry-run", "--json", "--premake", "0").document()
    done = command("register", "public.events", "--json", "--premake", "0").document()
    again = command("register", "public.events", "--json").document()
    planned = command("tier", "public.events", "--dry-run", "--json").document()
    assert first["preview"] == done["preview"] == again["preview"] == planned["preview"]
    assert (done["is_started"], again["already"]) == (False, True)
    assert [moving["name"] for moving in done["preview"]["moves"]] == [f"public.events_2026_0{n}" for n in (1, 2, 3)]
    report = spanning.tier()
    assert (report.rows, report.moved) == (
        done["preview"]["rows"],
        [moving["name"] for moving in done["preview"]["moves"]],
    )


@pytest.mark.conforms("C-221")
def test_the_commands_say_what_moves_by_itself(spanning: Spanning, command: RunCommand) -> None:
    told = command("register", "public.events").out
    assert "3 partitions with 359 rows would move to the lake" in told
    assert "nothing moves by itself until `thermocline start public.events`" in told
    assert "public.events (not started)" in command("tables").out
    assert "by hand only (`thermocline tier public.events`)" in command("show", "public.events").out
    pause(spanning.dsn, spanning.name)
    told = command("start", "public.events").out
    assert "public.events is started; by itself the worker does:" in told
    assert "it is paused, so nothing happens before `thermocline resume public.events`" in told
    resume(spanning.dsn, spanning.name)
    assert "by itself since" in command("show", "public.events").out
    assert "the worker does this by itself" in command("register", "public.events").out
    assert "public.events is stopped" in command("stop", "public.events").out


@pytest.mark.conforms("O-006", "C-221")
def test_start_says_how_many_rows_of_the_lake_the_retention_deletes_and_asks_for_the_name(
    capsys: pytest.CaptureFixture[str], make_spanning: Callable[..., Spanning]
) -> None:
    spanning = make_spanning(lake_retention="30d", start=False)
    spanning.tier()

    def command(*arguments: str) -> CommandResult:
        return run_command(capsys, *arguments, "--dsn", spanning.dsn)

    refused = command("start", "public.events")
    assert (refused.code, "public.events is not started: its name was not given" in refused.err) == (3, True)
    assert spanning.query(STARTED) == [(False,)]
    done = command("start", "public.events", "--yes", "public.events")
    assert "About 235 rows below 2026-03-01 00:00:00+00 will be deleted from the lake" in done.out
    assert command("start", "public.events").code == 0, "one that is started already needs no second word"
    unregister_spanning(spanning)
    adopt = ("register", "public.events", "--adopt-lake", "--start", "--premake", "0")
    refused = command(*adopt)
    assert (refused.code, "public.events is not started: its name was not given" in refused.err) == (3, True)
    assert spanning.query(STARTED) == [(False,)], "it is registered"
    done = command(*adopt, "--yes", "public.events")
    assert "rows below 2026-03-01 00:00:00+00 will be deleted from the lake" in done.out
    assert spanning.query(STARTED) == [(True,)]
