"""register, unregister and profile as a person or a script calls them: sentences, exit codes, JSON, and names that must
be typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stack.conftest import CommandLine

from thermocline.runtime.pg import connect_as_typed as connect

EVENTS = """
create table public.events (id bigint, ts timestamptz, v int, primary key (id, ts)) partition by range (ts);
create table public.e1 partition of public.events for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
comment on table public.events is 'what happened';
"""


@pytest.mark.conforms("C-013", "C-015", "C-022", "C-203")
def test_a_table_is_registered_in_a_profile_left_and_its_lake_dropped_by_name(
    thermocline: CommandLine, database: str, tmp_path: Path
) -> None:
    with connect(database, autocommit=True) as conn:
        conn.execute(EVENTS)
    at = ("--dsn", database, "--dir", str(tmp_path))
    archive = tmp_path / "the archive"
    assert thermocline("profile", "add", "archive", "--warehouse", archive, "--default", *at).code == 0
    done = thermocline("register", "public.events", "--tiering-lag", "7d", *at)
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "public.events is registered; its seam is public_all.events",
            "no partition would move to the lake",
            "later: public.e1 moves once a row at or above 2026-02-08 00:00:00+00 is there",
            "nothing moves by itself until `thermocline start public.events`; `thermocline tier public.events` moves "
            "it by hand, once",
        ],
    )
    assert [line.split()[0] for line in done.err.splitlines()] == [
        "lake",
        "delta",
        "spill",
        "foreign",
        "seam",
        "cut-line",
    ]
    again = thermocline("register", "public.events", "--json", *at)
    assert (again.code, again.document()["already"], again.document()["cut_line"]) == (
        0,
        True,
        "2026-01-01 00:00:00+00",
    )
    other = thermocline("register", "public.events", "--tiering-lag", "8d", *at)
    assert (other.code, "with another --tiering-lag" in other.err) == (3, True)
    listed = thermocline("profile", "--json", *at).document()
    assert [(p["name"], p["is_default"], p["tables"]) for p in listed] == [("archive", True, 1)]
    # As if something had been published: the lake is kept.
    with connect(database, autocommit=True) as conn:
        conn.execute("update thermocline.cutline set s = 42")
    left = thermocline("unregister", "public.events", *at)
    assert (left.code, "it may hold the only copy of the table's history" in left.out) == (0, True)
    assert len(list(archive.rglob("*.json"))) == 1
    for typed in ([], ["--yes-drop", "events"]):
        refused = thermocline("unregister", "public.events", "--drop-lake", *typed, *at)
        assert (refused.code, "error TC221" in refused.err) == (3, True)
    shown = thermocline("unregister", "public.events", "--drop-lake", "--dry-run", *at)
    assert (shown.code, "would be removed from public.events" in shown.out) == (0, True)
    assert len(list(archive.rglob("*.json"))) == 1
    dropped = thermocline("unregister", "public.events", "--drop-lake", "--yes-drop", "public.events", "--json", *at)
    assert (dropped.code, dropped.document()["was_registered"]) == (0, False)
    assert list(archive.rglob("*.json")) == []
    with connect(database, autocommit=True) as conn:
        assert conn.execute("select count(*) from thermocline.lake_leftovers").fetchone() == (0,)
        assert conn.execute("select count(*) from thermocline_iceberg.iceberg_tables").fetchone() == (0,)


@pytest.mark.conforms("C-022", "O-028")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["register", "public.events", "--incarnation", "x"], 2, "--incarnation belongs to --adopt-lake"),
        (["profile", "add", "x"], 2, "Missing option '--warehouse'"),
    ],
)
def test_wrong_calls_are_refused_by_name(
    thermocline: CommandLine, database: str, tmp_path: Path, arguments: list[str], code: int, sentence: str
) -> None:
    if "--incarnation" in arguments:
        with connect(database, autocommit=True) as conn:
            conn.execute(EVENTS)
    done = thermocline(*arguments, "--dsn", database, "--dir", str(tmp_path))
    assert (done.code, sentence in done.err, done.out) == (code, True, "")
