"""`thermocline alter` changes lags, lake retention and premake of a registered table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.commands import CommandResult, run_command
from tests.twin import Spanning

from thermocline.core.modes.table_settings import RequestedSettings
from thermocline.core.observation import PartitionObservation
from thermocline.core.plan.preview import RowCount
from thermocline.errors import LockNotGranted, SettingsChanged, UsageError, WrongCombination
from thermocline.ops.admin.alter_table import AlterReport, alter
from thermocline.ops.inspect.overview import read_detail
from thermocline.ops.tier import read_preview
from thermocline.runtime.pg import Connection

SETTINGS = "select tiering_lag / 86400000000, reclaim_lag / 86400000000, lake_retention / 86400000000, premake"
SETTINGS += " from thermocline.tables"


def change(spanning: Spanning, *, dry_run: bool = False, **requested: Any) -> AlterReport:
    request = RequestedSettings(**requested)
    return alter(spanning.dsn, spanning.name, request, settings=spanning.settings, dry_run=dry_run)


@pytest.mark.conforms("C-222")
def test_settings_change_in_the_next_cycle_and_the_event_tells_before_and_after(spanning: Spanning) -> None:
    report = change(spanning, dry_run=True, tiering_lag="30d", premake=2)
    assert spanning.query(SETTINGS) == [(0, 0, None, 0)]
    assert change(spanning, tiering_lag="30d", premake=2).changes == report.changes
    assert spanning.query(SETTINGS) == [(30, 0, None, 2)]
    assert [moving.name for moving in report.preview.moves] == ["public.events_2026_01", "public.events_2026_02"]
    assert spanning.tier().moved == [moving.name for moving in report.preview.moves]
    change(spanning, tiering_lag="0", reclaim_lag="2d")
    assert (spanning.tier().moved, spanning.tier().dropped) == (["public.events_2026_03"], [])
    told = [event.sentence for event in read_detail(spanning.dsn, spanning.name).events]
    assert "public.events is altered: tiering lag 30 days → 0, reclaim lag 0 → 2 days." in told
    assert "public.events is altered: tiering lag 0 → 30 days, premake 0 → 2." in told
    raised = change(spanning, tiering_lag="90d")
    assert raised.notes == (
        "rows below 2026-04-01 00:00:00+00 were moved already and stay in the lake: the cut-line does not go back",
    )
    assert change(spanning, tiering_lag="90d").changes == ()
    spanning.age_moves(2)
    assert spanning.tier().dropped == ["public.events_2026_03"]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-222", "C-117")
def test_a_retention_that_is_set_later_expires_rows_and_refuses_new_ones_below_the_line(spanning: Spanning) -> None:
    spanning.tier()
    report = change(spanning, lake_retention="30d")
    assert report.expiry is not None
    assert (report.expiry.below, report.expiry.rows) == ("2026-03-01 00:00:00+00", 235)
    assert spanning.tier().retention_line == report.expiry.below
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    old = "insert into events (id, ts, v) values (9001, '2026-01-20 00:00+00', 1)"
    with pytest.raises(psycopg.errors.CheckViolation, match="lies below the retention line"):
        spanning.seam.execute(old.encode())
    longer = change(spanning, lake_retention="none")
    assert longer.notes == (
        "rows below 2026-03-01 00:00:00+00 were deleted already: they do not come back, and none are accepted there",
    )
    with pytest.raises(psycopg.errors.CheckViolation, match="lies below the retention line"):
        spanning.seam.execute(old.encode())
    spanning.both("insert into events (id, ts, v) values (9001, '2026-03-20 00:00+00', 1)")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-222", "C-224")
def test_a_shorter_retention_needs_no_second_word_for_the_long_step_it_was_told_of(
    make_spanning: Callable[..., Spanning],
) -> None:
    grid = "; ".join(
        f"create table public.e{n} partition of public.events for values from ({n}) to ({n + 100})"
        for n in range(0, 900, 100)
    )
    spanning = make_spanning(
        table="create table {schema}.events (id bigint not null, k bigint not null, primary key (id, k))",
        partitions=grid,
        partition_by="range (k)",
        rows="insert into events select i, i from generate_series(0, 850) i",
        lake_retention="700",
    )
    spanning.tier()
    assert spanning.tier().retention_line == "100"
    report = change(spanning, lake_retention="100")
    assert report.expiry is not None
    assert (report.expiry.below, report.expiry.rows) == ("700", 600)
    assert spanning.tier().retention_line == "700"
    spanning.twin.execute("delete from events where k < 700")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-222", "C-119")
def test_a_writer_of_old_rows_in_flight_is_waited_for_before_rows_expire(spanning: Spanning) -> None:
    """It wrote before anybody checked the line: until it ends, the retention is not set."""
    spanning.tier()
    writer = spanning.session()
    writer.execute("insert into events (id, ts, v) values (9001, '2026-01-20 00:00+00', 1)")
    with pytest.raises(LockNotGranted):
        change(spanning, lake_retention="30d")
    assert spanning.query("select lake_retention from thermocline.tables") == [(None,)]
    writer.commit()
    change(spanning, lake_retention="30d")
    assert spanning.tier().retention_line == "2026-03-01 00:00:00+00"
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-222")
@pytest.mark.parametrize(
    ("requested", "refusal", "sentence"),
    [
        ({"lake_retention": "9d"}, WrongCombination, "--lake-retention does not go with --keep-heap"),
        ({"reclaim_lag": "9d"}, WrongCombination, "--reclaim-lag does not go with --keep-heap"),
        ({"premake": 1001}, UsageError, "--premake 1001 is out of range"),
        ({"tiering_lag": "soon"}, UsageError, "'soon' is not a duration"),
    ],
)
def test_alter_refuses_what_register_refuses(
    make_spanning: Callable[..., Spanning], requested: dict[str, Any], refusal: type[Exception], sentence: str
) -> None:
    spanning = make_spanning(keep_heap=True)
    before = spanning.query("table thermocline.tables")
    with pytest.raises(refusal, match=sentence):
        change(spanning, **requested)
    assert spanning.query("table thermocline.tables") == before
    assert change(spanning, lake_retention="none").changes == ()


@pytest.mark.conforms("C-222", "O-006")
def test_the_command_asks_for_the_name_before_a_retention_deletes_rows(
    capsys: pytest.CaptureFixture[str], spanning: Spanning
) -> None:
    def command(*arguments: str) -> CommandResult:
        return run_command(capsys, "alter", "public.events", *arguments, "--dsn", spanning.dsn)

    spanning.tier()
    assert command().code == 2
    refused = command("--lake-retention", "30d")
    assert (refused.code, "its name was not given" in refused.err) == (3, True)
    assert command("--lake-retention", "30d", "--yes", "public.other").code == 3
    shown = command("--lake-retention", "30d", "--dry-run")
    assert "About 235 rows below 2026-03-01 00:00:00+00 will be deleted from the lake" in shown.out
    assert spanning.query(SETTINGS) == [(0, 0, None, 0)]
    done = command("--lake-retention", "30d", "--yes", "public.events", "--json")
    assert [(c["setting"], c["before"], c["after"]) for c in done.document()["changes"]] == [
        ("lake_retention", "none", "30 days")
    ]
    assert spanning.query(SETTINGS) == [(0, 0, 30, 0)]
    assert "  reclaim lag     0 → 9 days\n" in command("--reclaim-lag", "9d").out


@pytest.mark.conforms("C-222")
def test_a_line_that_moved_on_since_it_was_confirmed_is_not_applied(spanning: Spanning) -> None:
    """Between the question and its answer a cycle moved T: more rows would be deleted than were told."""
    request = RequestedSettings(lake_retention="30d")
    told = change(spanning, dry_run=True, lake_retention="30d")
    assert told.expiry is None
    spanning.tier()
    with pytest.raises(SettingsChanged, match="now, and was nowhere when it was confirmed"):
        alter(spanning.dsn, spanning.name, request, settings=spanning.settings, told=told)
    assert spanning.query(SETTINGS) == [(0, 0, None, 0)]
    told = change(spanning, dry_run=True, lake_retention="30d")
    assert alter(spanning.dsn, spanning.name, request, settings=spanning.settings, told=told).expiry == told.expiry


def test_a_preview_counts_rows_without_locks_on_the_catalogs_partitions(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_rows, other, counted = read_preview._count_rows, spanning.session(autocommit=True), []

    def count(conn: Connection, partition: PartitionObservation) -> RowCount:
        counted.extend(other.execute("select name from thermocline.partitions for update nowait").fetchall())
        return count_rows(conn, partition)

    monkeypatch.setattr(read_preview, "_count_rows", count)
    spanning.tier(dry_run=True)  # the catalog knows the partitions from here on
    counted.clear()
    change(spanning, dry_run=True, tiering_lag="1d")
    assert len(counted) == 12, "three partitions move, and four rows are free at each count"
