"""An engine that is not ours may lie in every way there is: what it wrote is held against the bin before anything is
committed."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.external_engine import LIES, answer, local
from tests.unit.bins import Bin, iceberg_schema, lake_field
from tests.unit.merge_samples import KINDS, make_column

from thermocline.errors.maintenance import OutsideThePlan
from thermocline.parquet.byte_files import FileSource
from thermocline.parquet.footer.file_schema import find_differences, read_elements
from thermocline.parquet.footer.footer import FooterPatterns, read_footer
from thermocline.parquet.values.column_checksums import no_rows, sum_columns
from thermocline.parquet.values.lake_schema import read_lake_schema
from thermocline.spark.kernels.check_outputs import check_replacement, sum_inputs
from thermocline.spark.kernels.external_program import bin_to_json, output_names

SCHEMA = pa.schema(
    [
        lake_field("id", pa.int64(), 1),
        lake_field("name", pa.string(), 2),
        lake_field("tags", pa.list_(lake_field("element", pa.string(), 11)), 3),
        lake_field("kv", pa.map_(lake_field("key", pa.string(), 12, False), lake_field("value", pa.int32(), 13)), 4),
        lake_field("s", pa.struct([lake_field("a", pa.int32(), 14), lake_field("b", pa.int32(), 15)]), 5),
        lake_field("amount", pa.decimal128(9, 2), 6),
        lake_field("at", pa.timestamp("us", "UTC"), 7),
        lake_field("one", pa.int32(), 8),
        lake_field("other", pa.int32(), 9),
        lake_field("x", pa.float32(), 10),
        lake_field("region", pa.string(), 16),
    ]
)
ICEBERG = iceberg_schema(
    (1, "id", "long"),
    (2, "name", "string"),
    (3, "tags", {"type": "list", "element-id": 11, "element": "string", "element-required": False}),
    (4, "kv", {"type": "map", "key-id": 12, "key": "string", "value-id": 13, "value": "int", "value-required": False}),
    (
        5,
        "s",
        {
            "type": "struct",
            "fields": [{"id": n, "name": name, "required": False, "type": "int"} for n, name in ((14, "a"), (15, "b"))],
        },
    ),
    (6, "amount", "decimal(9,2)"),
    (7, "at", "timestamptz"),
    (8, "one", "int"),
    (9, "other", "int"),
    (10, "x", "float"),
    (16, "region", "string"),
)
WHAT_DIFFERS = {
    "loses a row": "has 20 rows, and the external engine wrote 19",
    "doubles a row": "has 20 rows, and the external engine wrote 21",
    "doubles a row and loses another": "other values for bin 7, in column id, name",
    "without field ids": r"column id \(field id 1\) is there 0 times",
    "a narrower number": "column id is INT32 without annotation instead of int64",
    "a text as bytes": "column name is BYTE_ARRAY without annotation instead of string",
    "a moment without its zone": r"column at is INT64 timestamp\[us\] instead of timestamp\[us, tz=UTC\]",
    "a moment in milliseconds": r"column at is INT64 timestamp\[ms, UTC\] instead of timestamp\[us, tz=UTC\]",
    "another scale": r"column amount is .*decimal\(9, 3\) instead of decimal128\(9, 2\)",
    "a double for a float": "column x is DOUBLE without annotation instead of float",
    "swapped ids in a struct": "other values for bin 7, in column s;",
    "swapped ids in a map": "the key of column kv has field id 13 instead of 12",
    "another id in a list": "the element of column tags has field id 77 instead of 11",
    "swapped columns": "other values for bin 7, in column one, other;",
    "an extra column": "extra has field id None, which is none of the table's there",
    "a changed value": "other values for bin 7, in column name;",
    "a changed value in a list": "other values for bin 7, in column tags;",
    "a list in another order": "other values for bin 7, in column tags;",
    "a changed value in a map": "other values for bin 7, in column kv;",
    "a changed value in a struct": "other values for bin 7, in column s;",
    "a struct of NULLs for NULL": "other values for bin 7, in column s;",
    "an empty list for NULL": "other values for bin 7, in column tags;",
    "a positive zero": "other values for bin 7, in column x;",
    "NULL for an empty text": "other values for bin 7, in column name;",
    "another partition": "other values for bin 7, in column region;",
    "values moved between rows": "moved values of bin 7 from row to row",
    "lies of its lowest": "says of column id that its values lie between 5 and 19, and they lie between 0 and 19",
    "lies of its highest": "says of column id that its values lie between 0 and 5, and they lie between 0 and 19",
    "a bloom filter": "gave column id of .* a bloom filter, which cannot be checked",
    "a column index": "gave column id of .* a column index, which cannot be checked",
    "no Parquet": "cannot be read",
    "spoils an input first": "other values for bin 7, in column name;",
}


def rows(first: int) -> pa.Table:
    made = [
        {
            "id": i,
            "name": "" if i == 0 else f"n{i}",
            "tags": None if i % 5 == 0 else [f"t{i}", None],
            "kv": [("k", i), ("l", None)],
            "s": None if i % 5 == 0 else {"a": i, "b": -i},
            "amount": Decimal(i) / 4,
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i),
            "one": i,
            "other": 100 - i,
            "x": -0.0 if i == 0 else i / 2,
            "region": "us",
        }
        for i in range(first, first + 10)
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


@pytest.fixture
def nested(tmp_path: Path) -> Bin:
    made = Bin(tmp_path, schema=ICEBERG)
    (tmp_path / "out").mkdir()
    for first in (0, 10):
        made.add(rows(first), store_decimal_as_integer=True)
    return made


def check(lake: Bin, manner: str) -> pa.Table:
    """What the program answers, checked; without a process of its own, which `test_maintenance_external.py` starts."""
    task = lake.task()
    found = sum_inputs(task, lambda _read, _written: None)
    told = answer(bin_to_json(task, output_names(task), {}), manner)
    outputs = check_replacement(
        task, found, [output["path"] for output in told["outputs"]], lambda _read, _written: None
    )
    return pa.concat_tables([pq.read_table(local(output.path)) for output in outputs])


@pytest.mark.conforms("M-003")
@pytest.mark.parametrize("manner", WHAT_DIFFERS)
def test_what_an_engine_wrote_wrong_is_refused_with_what_differs(nested: Bin, manner: str) -> None:
    with pytest.raises(OutsideThePlan, match=WHAT_DIFFERS[manner]):
        check(nested, manner)


def test_every_lie_that_the_program_knows_is_told() -> None:
    assert set(LIES) <= set(WHAT_DIFFERS)


@pytest.mark.parametrize(
    "manner", ["honest", "honest and without Arrow's schema", "honest in groups", "honest with pages of version 2"]
)
def test_an_honest_engine_is_believed_however_it_writes(nested: Bin, manner: str) -> None:
    assert check(nested, manner).equals(pa.concat_tables([rows(0), rows(10)]))


def test_bounds_that_leave_nan_out_are_refused(nested: Bin) -> None:
    """Arrow writes them so, and to Spark and DuckDB NaN is the largest number."""
    first = rows(20)
    numbers = pa.array([float("nan"), *first.column("x").to_pylist()[1:]], pa.float32())
    nested.add(first.set_column(SCHEMA.get_field_index("x"), SCHEMA.field("x"), numbers), store_decimal_as_integer=True)
    with pytest.raises(
        OutsideThePlan, match=r"says of column x that its values lie between -0.0 and .*, and 1 of them are NaN"
    ):
        check(nested, "honest")


def test_bounds_of_uuids_are_refused(tmp_path: Path) -> None:
    """Spark takes them for signed numbers, and finds nothing between 00… and ff…."""
    made = Bin(tmp_path, schema=iceberg_schema((1, "id", "long"), (2, "u", "uuid")))
    (tmp_path / "out").mkdir()
    schema = pa.schema([lake_field("id", pa.int64(), 1), lake_field("u", pa.uuid(), 2)])
    for first in (0, 10):
        uuids = pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([bytes([at * 12]) * 16 for at in range(first, first + 10)], pa.binary(16))
        )
        made.add(pa.Table.from_arrays([pa.array(range(first, first + 10)), uuids], schema=schema))
    with pytest.raises(OutsideThePlan, match=r"says of column u that .* which readers of UUIDs take differently"):
        check(made, "honest")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 30))
def test_sums_depend_on_values_and_on_nothing_else(seed: int, cut: int) -> None:
    """Not on the order of rows, nor on how they are cut into batches; every changed value changes its column's sum."""
    chance = random.Random(seed)
    kinds = [found for found in chance.sample(KINDS, 3) if found[0] != pa.float16()]
    table = pa.table(
        [make_column(kind, make, 30, chance) for kind, make in kinds], names=[f"c{n}" for n in range(len(kinds))]
    )
    whole = sum((sum_columns(batch) for batch in table.to_batches()), no_rows(table.num_columns))
    order = chance.sample(range(30), 30)
    shuffled = pa.concat_tables([table.slice(at, 1) for at in order])
    parts = [*table.slice(cut).to_batches(), *table.slice(0, cut).to_batches()]
    assert sum((sum_columns(part) for part in parts), no_rows(table.num_columns)) == whole
    assert sum((sum_columns(part) for part in shuffled.to_batches()), no_rows(table.num_columns)) == whole
    for at, (kind, make) in enumerate(kinds):
        values = table.column(at).to_pylist()
        row, other = chance.randrange(30), make(chance)
        if repr(values[row]) == repr(other):
            continue
        values[row] = other
        changed = table.set_column(at, f"c{at}", pa.array(values, kind))
        if repr(changed.column(at).to_pylist()) == repr(table.column(at).to_pylist()):
            continue
        [batch] = changed.combine_chunks().to_batches()
        assert sum_columns(batch).differing(whole, changed.column_names) == [f"c{at}"], (kind, row)
        assert sum_columns(batch).whole != whole.whole


def test_files_of_our_own_writer_are_what_the_table_says(nested: Bin) -> None:
    result = nested.run("reencode")
    lake = read_lake_schema(ICEBERG)
    for output in result.outputs:
        with FileSource(output.path, lambda _, __: None) as source:
            root = read_elements(read_footer(source, FooterPatterns(files=1)).schema)
        assert list(find_differences(lake, root)) == []
    assert pq.read_metadata(result.outputs[0].path.removeprefix("file://")).num_rows == 20
