"""The copy kernel: every value arrives in the lake as it was in the heap, or the copy stops and says which one
cannot."""

from __future__ import annotations

import dataclasses
import threading
import time
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.lake_database import LakeDatabase

from thermocline.core.names import TableName
from thermocline.errors import SparkTaskFailed, UnrepresentableValue
from thermocline.lake.commit.compare_and_swap import OpStamp, append_range
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges

EVENTS = TableName("public", "events")
ALL_TYPES = TableName("public", "Every Type")

ALL_TYPES_DDL = """
create type public.mood as enum ('sad', 'glad');
create table public."Every Type" (
  id bigint not null, ts timestamptz not null, "odd ""name" text, flag bool, tiny smallint, mid integer,
  small_float real,
  big_float float8, price numeric(12,2), exact numeric(38,10), any_number numeric, day date, at timestamp, clock time,
  ref uuid, raw bytea,
  code varchar(20), fixed char(6), doc jsonb, tags text[], feeling public.mood, net inet, span int4range,
  lapse interval);
insert into public."Every Type"
select i, '2026-01-05'::timestamptz + i * interval '1 hour', 'text é漢😀 ' || i, i % 2 = 0, (i % 30000)::smallint, -i,
    i / 3.0, i / 7.0,
  i / 100.0, i / 1e9, i / 3.0, '2026-01-01'::date + (i % 100), '2026-01-01'::timestamp + i * interval '1 microsecond',
  '00:00'::time + i * interval '1 s', gen_random_uuid(), decode(md5(i::text), 'hex'), 'v' || i, 'ab',
  jsonb_build_object('i', i),
  array['a', i::text], 'glad', '10.0.0.1', int4range(1, i + 2), i * interval '1 day 2 seconds'
from generate_series(1, 2000) i;
insert into public."Every Type" (id, ts) values (-1, '2026-01-05');
insert into public."Every Type" values
  (-9223372036854775808, '4714-11-24 00:00:00 BC', '', true, -32768, -2147483648, 'NaN', '-infinity', -9999999999.99,
  -0.0000000001,
   'NaN', '4714-11-24 BC', '294246-01-01', '23:59:59.999999', '00000000-0000-0000-0000-000000000000',
   '', '', '', 'null', '{}', 'sad', '::1', 'empty', '-1 mon'),
  (9223372036854775807, '9999-12-31 23:59:59.999999', repeat('long é', 5000), false, 32767, 2147483647, '-0', 1e308,
  9999999999.99,
   9999999999999999999999999999.9999999999, 1e100, '5874897-12-31', '0001-01-01', '00:00',
   'ffffffff-ffff-ffff-ffff-ffffffffffff',
   decode(repeat('ff', 3000), 'hex'),
   repeat('x', 20), 'abcdef', '{"a": [1, 2]}', '{NULL,"a b"}', 'sad', '10.0.0.0/8', '(,)', '178000000 years');
"""

EVENTS_DDL = """
create table public.events (id bigint not null, ts timestamptz not null, kind text, amount numeric(12,2),
    primary key (id, ts));
insert into public.events
select i, '2026-01-01'::timestamptz + (i * 7919::bigint % greatest({rows}, 1)) * interval '90 s',
  (array['click', 'view', 'buy'])[1 + i % 3], i / 100.0
from generate_series(1, {rows}) i;
"""


def make_events(lake_database: LakeDatabase, rows: int, transform: str | None = "month") -> tuple[Any, Any]:
    lake_database.run(EVENTS_DDL.format(rows=rows))
    columns = lake_database.columns(EVENTS, ("id", "ts"))
    return lake_database.make_lake(EVENTS, columns, transform, "ts"), columns


def commit(head: Any, result: CopyResult) -> int:
    return append_range(
        head, result.files, OpStamp(op_id="00000000-0000-0000-0000-000000000001", kind="tier", table_id=1, t=0), None
    )


def test_every_type_reads_back_the_same_by_pyiceberg_and_duckdb(lake_database: LakeDatabase) -> None:
    lake_database.run(ALL_TYPES_DDL)
    columns = lake_database.columns(ALL_TYPES, ("id", "ts"))
    head = lake_database.make_lake(ALL_TYPES, columns, "month", "ts")
    result = lake_database.copy(head, columns, "ts")
    assert result.is_exact
    assert result.heap.rows == 2003
    commit(head, result)
    # By the output function, as the lake has it: inet's cast to text is another text. Blanks at the end of char(n) mean
    # nothing.
    forms = {
        "text": "case when {0} is not null then concat({0}) end",
        "float": "{0}::float8",
        "character(6)": "{0}::text",
    }
    kinds = [
        (c.name, c.pg_type if c.pg_type == "character(6)" else c.lake_type if c.form == "native" else "text")
        for c in columns
    ]
    names = ", ".join(forms.get(kind, "{0}").format(f'"{name.replace(chr(34), chr(34) * 2)}"') for name, kind in kinds)
    plain = 'select {} from public."Every Type" where id between -1 and 100000 order by id'
    expected = [list(row) for row in lake_database.rows(plain.format(names))]
    for table in (lake_database.lake_by_pyiceberg(ALL_TYPES), lake_database.lake_by_duckdb(ALL_TYPES)):
        told = [list(row.values()) for row in table.sort_by("id").slice(1, 2001).to_pylist()]
        assert [tuple(map(_same, row)) for row in told] == [tuple(map(_same, row)) for row in expected]


def test_spark_reads_what_the_kernel_wrote(lake_database: LakeDatabase) -> None:
    """Of all the types only time is missing: Iceberg's Spark connector does not know it."""
    lake_database.run(ALL_TYPES_DDL + 'alter table public."Every Type" drop column clock')
    columns = lake_database.columns(ALL_TYPES, ("id", "ts"))
    head = lake_database.make_lake(ALL_TYPES, columns, "month", "ts")
    commit(head, lake_database.copy(head, columns, "ts"))
    known = "id between -1 and 100000"
    both = (
        "count(*)",
        "min(price)",
        "max(exact)",
        "count(distinct ref)",
        "max(at)",
        "min(day)",
        "count(flag)",
        "max(feeling)",
        "count(raw)",
    )
    told = lake_database.lake_row(
        ALL_TYPES, known, *both, "cast(sum(length(doc)) as bigint)", "sum(length(tags))", "sum(length(raw))"
    )
    asked = ", ".join(both).replace("max(feeling)", "max(feeling::text)")
    own = ", sum(length(doc::text)), sum(length(tags::text)), sum(length(raw))"
    assert (
        told
        == lake_database.rows('select {asked} from public."Every Type" where {known}', asked=asked + own, known=known)[
            0
        ]
    )


def _same(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else str(value) if type(value).__name__ == "UUID" else value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "infinity"),
        ("date", "-infinity"),
        ("timestamptz", "infinity"),
        ("timestamptz", "-infinity"),
        ("timestamp", "infinity"),
        ("timestamp", "294276-12-31"),
        ("time", "24:00:00"),
        ("numeric(10,2)", "NaN"),
    ],
)
def test_a_value_with_no_lake_form_stops_the_copy_and_is_named(
    lake_database: LakeDatabase, kind: str, value: str
) -> None:
    lake_database.run(
        "create table public.events (id bigint not null, ts timestamptz not null, odd {kind});"
        "insert into public.events select i, '2026-01-01', null from generate_series(1, 100) i;"
        "insert into public.events values (7, '2026-01-01', '{value}')",
        kind=kind,
        value=value,
    )
    columns = lake_database.columns(EVENTS, ("id", "ts"))
    head = lake_database.make_lake(EVENTS, columns, "month", "ts")
    with pytest.raises(UnrepresentableValue, match="Column odd") as refused:
        lake_database.copy(head, columns, "ts")
    assert refused.value.column == "odd"
    assert refused.value.value.lower() in (value.lower(), "a moment later than the lake's last")


@pytest.mark.parametrize("transform", [None, "year", "month", "day", "hour"])
def test_files_lie_in_the_partitions_iceberg_itself_would_choose(
    lake_database: LakeDatabase, transform: str | None
) -> None:
    head, columns = make_events(lake_database, 3000, transform)
    result = lake_database.copy(head, columns, "ts")
    assert result.is_exact
    commit(head, result)
    # A filter that Iceberg turns into a partition filter finds exactly the rows only when every file lies where it
    # should.
    for day in ("2026-01-02", "2026-02-01"):
        condition = f"ts >= timestamp '{day}' and ts < timestamp '{day}' + interval '1 day'"
        assert (
            lake_database.lake_row(EVENTS, condition, "count(*)")
            == lake_database.rows("select count(*) from events where {it}", it=condition)[0]
        )


@pytest.mark.parametrize("kind", ["integer", "bigint", "date"])
def test_integer_and_date_keys_are_partitioned_by_truncate_and_day(lake_database: LakeDatabase, kind: str) -> None:
    value = "'1969-12-01'::date + i % 90" if kind == "date" else "i * 10 - 5000"
    lake_database.run(
        "create table public.events (k {kind} not null, v text);"
        "insert into public.events select {value}, i::text from generate_series(1, 1000) i",
        kind=kind,
        value=value,
    )
    columns = lake_database.columns(EVENTS, ("k",))
    head = lake_database.make_lake(EVENTS, columns, "day" if kind == "date" else "truncate[1000]", "k")
    result = lake_database.copy(head, columns, "k")
    assert result.is_exact
    commit(head, result)
    condition = "k >= date'1969-12-31' and k < date'1970-01-03'" if kind == "date" else "k >= -1000 and k < 1000"
    told = lake_database.lake_row(EVENTS, condition, "count(*)", "count(distinct v)")
    assert told == lake_database.rows("select count(*), count(distinct v) from events where {it}", it=condition)[0]


def test_files_are_clustered_by_the_tier_key_and_closed_at_the_target_size(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 20_000, "month")
    result = lake_database.copy(head, columns, "ts", target_file_bytes=1, ranges=[(0, None)])
    assert result.is_exact
    assert len(result.files) == len({file.partition.ordinal for file in result.files if file.partition})
    for file in result.files:
        keys = pq.read_table(file.path.removeprefix("file://"), columns=["ts"])["ts"].cast(pa.int64()).to_pylist()
        assert keys == sorted(keys)
        assert (keys[0], keys[-1]) == (file.lower_key, file.upper_key)


def test_every_file_is_registered_before_it_is_written(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 3000, "day")
    result = lake_database.copy(head, columns, "ts")
    assert {file.path for file in result.files} == {
        path for (path,) in lake_database.rows("select path from thermocline.staged_files where state = 'staged'")
    }


def test_rows_written_after_the_snapshot_do_not_enter_the_lake(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 3000)
    with lake_database.snapshot() as snapshot:
        lake_database.run(
            "insert into events select i, '2026-01-01', 'late', 0 from generate_series(100001, 120000) i; "
            "delete from events where id < 100"
        )
        result = copy_partition(lake_database.spark, lake_database.tasks(head, columns, "ts", snapshot))
    assert result.is_exact
    assert result.heap.rows == 3000


def test_an_empty_partition_gives_no_files(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 0)
    result = lake_database.copy(head, columns, "ts")
    assert result.is_exact
    assert (result.files, result.heap.rows) == ((), 0)


def test_a_retried_task_doubles_nothing(lake_database: LakeDatabase) -> None:
    """The backend of the first attempt is killed while it copies; the files it began stay staged and are not
    counted."""
    head, columns = make_events(lake_database, 600_000, "month")
    killed: list[int] = []
    watcher = threading.Thread(target=_kill_one_copy, args=(lake_database, killed))
    watcher.start()
    result = lake_database.copy(head, columns, "ts", ranges=[(0, None)])
    watcher.join()
    assert killed
    assert result.is_exact
    assert result.heap.rows == 600_000
    commit(head, result)
    assert lake_database.lake_row(EVENTS, "true", "count(*)", "count(distinct id)") == (600_000, 600_000)


def _kill_one_copy(lake_database: LakeDatabase, killed: list[int]) -> None:
    deadline = time.monotonic() + 60
    with lake_database.connect() as conn:
        while not killed and time.monotonic() < deadline:
            found = conn.execute(
                "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
                " and query ilike 'copy%hashint8extended%' and state = 'active'"
            ).fetchone()
            if found:
                time.sleep(0.1)
                conn.execute("select pg_terminate_backend(%s)", [found[0]])
                killed.append(found[0])


def test_a_failed_task_is_told_in_one_sentence(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 10)
    with lake_database.snapshot() as snapshot:
        task = lake_database.tasks(head, columns, "ts", snapshot)[0]
    broken = dataclasses.replace(task, partition=TableName("public", "not_there"))
    with pytest.raises(SparkTaskFailed) as failed:
        copy_partition(lake_database.spark, [dataclasses.replace(broken, snapshot_name="nonsense")])
    assert failed.value.message == 'Copying public.not_there failed: invalid snapshot identifier: "nonsense".'


def test_a_warehouse_that_cannot_be_written_is_told_in_one_sentence(lake_database: LakeDatabase) -> None:
    head, columns = make_events(lake_database, 10)
    (lake_database.warehouse / "blocked").write_text("a file where a directory should be")
    with pytest.raises(SparkTaskFailed.__mro__[1], match="could not be written"):
        lake_database.copy(
            dataclasses.replace(head, location=f"file://{lake_database.warehouse}/blocked"), columns, "ts"
        )


def test_a_partition_of_four_million_rows_in_one_task_stays_within_512_megabytes(lake_database: LakeDatabase) -> None:
    lake_database.run(
        "create table public.events (id bigint not null, ts timestamptz not null, kind text, amount "
        "numeric(12,2), score float8, ref uuid,"
        " note text); insert into public.events"
        " select i, '2026-01-01'::timestamptz + (i * 7919::bigint % 4000000) * interval '1 s', "
        "(array['click','view'])[1 + i % 2],"
        " i / 100.0, i / 3.0, md5(i::text)::uuid, 'note number ' || i from generate_series(1, 4000000) i"
    )
    columns = lake_database.columns(EVENTS, ("id", "ts"))
    head = lake_database.make_lake(EVENTS, columns, "month", "ts")
    result = lake_database.copy(head, columns, "ts", ranges=[(0, None)])
    assert result.is_exact
    assert result.heap.rows == 4_000_000
    assert result.peak_bytes < 512 << 20


@pytest.mark.parametrize(
    ("size_bytes", "parallelism"), [(0, 2), (8192, 2), (100 << 20, 2), (1 << 30, 4), (10 << 30, 64)]
)
def test_block_ranges_cover_every_block_once_and_end_open(size_bytes: int, parallelism: int) -> None:
    ranges = plan_block_ranges(size_bytes, parallelism)
    assert ranges[0][0] == 0
    assert ranges[-1][1] is None
    assert all(high == following[0] for (_, high), following in pairwise(ranges))
    assert all(high is None or high > low for low, high in ranges)
