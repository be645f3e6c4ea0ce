"""Snapshots, deletes, cursors and transactions of the lake, through postgres_fdw and through direct connections."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

EVENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "note", StringType(), required=False),
)


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    times = pa.array([number * 1_000_000 for number in ids], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "ts": times, "note": [f"note {number % 7}" for number in ids]})


@pytest.fixture
def events(site: Any) -> Any:
    """`thermocline_lake.events` with nothing in it yet."""
    site.lake.create("events", EVENTS)
    site.lake.foreign_table("events", "id bigint, ts timestamptz, note text")
    return site


def _ids(conn: psycopg.Connection[Any], snapshot: int | None) -> list[int]:
    return [
        row[0]
        for row in conn.execute(
            "select id from thermocline_lake.events where _snapshot = %s order by id", (snapshot,)
        ).fetchall()
    ]


def test_each_snapshot_reads_as_it_was(events: Any) -> None:
    first = events.lake.append("events", _rows(0, 3))
    second = events.lake.append("events", _rows(3, 2))
    assert _ids(events.conn, first) == [0, 1, 2]
    assert _ids(events.conn, second) == [0, 1, 2, 3, 4]


def test_a_null_snapshot_has_no_rows(events: Any) -> None:
    events.lake.append("events", _rows(0, 3))
    assert _ids(events.conn, None) == []
    assert events.conn.execute("select count(*) from thermocline_lake.events where _snapshot = null").fetchone() == (0,)


def test_an_unknown_snapshot_is_an_error_and_never_the_newest(events: Any) -> None:
    events.lake.append("events", _rows(0, 3))
    with pytest.raises(psycopg.Error, match="has no snapshot 12345") as problem:
        _ids(events.conn, 12345)
    assert problem.value.sqlstate == "55000"


def test_a_read_that_names_no_snapshot_is_refused(events: Any) -> None:
    events.lake.append("events", _rows(0, 3))
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="must say at which snapshot"):
        events.conn.execute("select * from thermocline_lake.events")


def test_position_deletes_hide_their_rows_in_later_snapshots_only(events: Any) -> None:
    before = events.lake.append("events", _rows(0, 5))
    after = events.lake.delete_positions("events", events.lake.files("events")[0], [1, 3])
    assert _ids(events.conn, before) == [0, 1, 2, 3, 4]
    assert _ids(events.conn, after) == [0, 2, 4]
    later = events.lake.append("events", _rows(5, 2))
    assert _ids(events.conn, later) == [0, 2, 4, 5, 6]
    assert events.conn.execute(
        "select count(*) from thermocline_lake.events where _snapshot = %s and id > 0", (later,)
    ).fetchone() == (4,)


def test_position_deletes_count_rows_over_the_whole_file_not_over_what_a_filter_left(events: Any) -> None:
    events.lake.append("events", _rows(0, 1000), row_group_rows=100)
    after = events.lake.delete_positions("events", events.lake.files("events")[0], [0, 555, 999])
    found = events.conn.execute(
        "select id from thermocline_lake.events where _snapshot = %s and id between 553 and 557 order by id", (after,)
    ).fetchall()
    assert found == [(553,), (554,), (556,), (557,)]


def test_equality_deletes_hide_equal_rows_of_strictly_older_files_only(events: Any) -> None:
    before = events.lake.append("events", _rows(0, 5))
    after = events.lake.delete_equal("events", pa.table({"id": pa.array([1, 3, 99], pa.int64())}))
    assert _ids(events.conn, before) == [0, 1, 2, 3, 4]
    assert _ids(events.conn, after) == [0, 2, 4]
    again = events.lake.append("events", _rows(3, 3))
    assert _ids(events.conn, again) == [0, 2, 3, 4, 4, 5]
    last = events.lake.delete_equal("events", pa.table({"id": pa.array([4], pa.int64())}))
    assert _ids(events.conn, last) == [0, 2, 3, 5]
    query = "select count(*) from thermocline_lake.events where _snapshot = %s and id between 3 and 4"
    assert events.conn.execute(query, (last,)).fetchone() == (1,)


def test_equality_deletes_over_several_columns_compare_nulls_as_equal(events: Any) -> None:
    rows = _rows(0, 3).set_column(2, "note", pa.array([None, "a", None]))
    events.lake.append("events", rows)
    events.lake.delete_equal(
        "events", pa.table({"id": pa.array([0, 1, 2], pa.int64()), "note": pa.array([None, "b", "x"])})
    )
    after = events.lake.delete_positions("events", events.lake.files("events")[0], [])
    assert _ids(events.conn, after) == [1, 2]


def test_position_and_equality_deletes_together_give_what_duckdbs_own_reader_gives(events: Any) -> None:
    events.lake.append("events", _rows(0, 1000), row_group_rows=100)
    first = next(file for file in events.lake.files("events") if "deletes" not in file.name)
    events.lake.delete_equal("events", pa.table({"note": ["note 2", "note 5"]}))
    events.lake.append("events", _rows(1000, 50))
    after = events.lake.delete_positions("events", first, [0, 7, 999])
    after = events.lake.delete_equal("events", pa.table({"id": pa.array([1001, 14, 21], pa.int64())}))
    assert _ids(events.conn, after) == _ids_by_iceberg_scan(events.lake.tables["events"].metadata_location, after)


def _ids_by_iceberg_scan(location: str, snapshot: int) -> list[int]:
    conn = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    for name in ("avro", "iceberg"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        conn.load_extension(str(next(Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension"))))
    place = location.removeprefix("file://")
    found = conn.execute(
        "select id from iceberg_scan(?, snapshot_from_id => CAST(? AS UBIGINT)) order by id", [place, snapshot]
    )
    return [row[0] for row in found.fetchall()]


def test_a_direct_client_may_send_parameters_in_binary(events: Any, client: psycopg.Connection[Any]) -> None:
    snapshot = events.lake.append("events", _rows(0, 10))
    query = "select id from public.events where _snapshot = %b and ts = %b and note = %b"
    assert client.execute(query, (snapshot, datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC), "note 3")).fetchall() == [(3,)]
