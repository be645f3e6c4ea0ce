"""A table that a pass has put in order is left alone by the next one, whatever the key; and what comes later is still
put in order.

The kernels run on real files; only the manifest is left out: what a table says of its files is made here, with bounds
as Iceberg cuts them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, iceberg_schema, lake_field, local
from tests.unit.compaction_inputs import NOW, lake_table
from tests.unit.sort_values import VALUES, comparable

from thermocline.core.lake_file import LiveDataFile
from thermocline.core.maintenance.bins import CompactionPlan, plan_compaction
from thermocline.core.maintenance.clustering import Clustering, OrderTerm
from thermocline.core.policy.policy import Policy
from thermocline.parquet.encode import output_writer as writing
from thermocline.parquet.rewrite_task import InputFile, SortField
from thermocline.parquet.sort import sort_bin as sorting
from thermocline.spark.kernels.compact_bin import run_bin

PREFIX = "a prefix that all of them have in common, "
TARGET = 4_000
POLICY = Policy(rewrite_target_bytes=TARGET, rewrite_min_input_files=2, min_input_scope="partition")
TIMES = ("date", "timestamp", "timestamptz")
TRANSFORMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(VALUES, ("identity",)),
    **dict.fromkeys(TIMES, ("identity", "bucket[7]", "year", "month", "day")),
    **dict.fromkeys(("int", "long", "string", "binary", "decimal(9,2)"), ("identity", "bucket[7]", "truncate[3]")),
}
TRANSFORMS["timestamp"] += ("hour",)
CASES = [(kind, transform) for kind, found in TRANSFORMS.items() for transform in found]
KEY, OTHER, BODY = 1, 2, 3


class Ordered:
    """A table of a key, another number and some bytes, which passes keep in an order."""

    def __init__(self, folder: Path, kind: str, seed: int, bounds: bool) -> None:
        self.kind, self.bounds, self.chance = kind, bounds, np.random.default_rng(seed)
        self.lake = Bin(folder, schema=iceberg_schema((KEY, "k", kind), (OTHER, "n", "long"), (BODY, "body", "binary")))
        arrow = VALUES[kind][0]
        self.schema = pa.schema(
            [lake_field("k", arrow, KEY), lake_field("n", pa.int64(), OTHER), lake_field("body", pa.binary(), BODY)]
        )
        self.files: list[LiveDataFile] = []

    def append(self, files: int, rows: int = 200) -> None:
        for _ in range(files):
            numbers = self.chance.integers(0, 1000, rows)
            body = [self.chance.bytes(16) for _ in range(rows)]
            self._add(self.lake.add(pa.table([self._keys(rows), numbers, body], schema=self.schema)), 0)

    def _keys(self, rows: int) -> pa.Array:
        odd = [None, *VALUES[self.kind][1]]
        keys = [
            odd[n % len(odd)] if n < 3 * len(odd) else _usual(self.kind, n)
            for n in map(int, self.chance.integers(0, 5000, rows))
        ]
        return pa.array(keys, VALUES[self.kind][0])

    def _add(self, location: str, order_id: int) -> None:
        found = pq.read_table(local(location))
        self.files.append(
            LiveDataFile(
                path=location,
                size_bytes=Path(local(location)).stat().st_size,
                record_count=found.num_rows,
                sequence_number=1,
                order=len(self.files),
                sort_order_id=order_id,
                ends={KEY: self._ends(found.column("k")), OTHER: self._ends(found.column("n"))},
            )
        )

    def _ends(self, column: pa.ChunkedArray) -> tuple[Any, Any]:
        """As a manifest tells them: text cut to sixteen characters, nothing of NaN, and of NULLs alone."""
        known = [value for value in column.to_pylist() if value is not None and value == value]
        if not self.bounds or not known:
            return (None, None)
        low, high = min(map(comparable, known)), max(map(comparable, known))
        if isinstance(low, bytes) and self.kind in ("string", "binary"):
            return low[:16], high if len(high) <= 16 else high[:15] + bytes([high[15] + 1])
        return low, high

    def plan(self, order: Clustering) -> CompactionPlan:
        return plan_compaction(lake_table(self.files), POLICY, NOW, order)

    def run(self, order: Clustering, plan: CompactionPlan) -> None:
        """What a pass does with a plan; files are called as a pass calls them."""
        pass_id = uuid.uuid4()
        for made in plan.bins:
            gone = {file.path for file in made.files}
            self.files = [file for file in self.files if file.path not in gone]
            inputs = [
                InputFile(path=file.path, size_bytes=file.size_bytes, record_count=file.record_count, sequence_number=1)
                for file in made.files
            ]
            task = replace(
                self.lake.task(made.kernel),
                inputs=tuple(inputs),
                name_prefix=f"{order.output_prefix(pass_id, made.number)}-17",
                sort=tuple(_field(term) for term in order.terms),
                target_bytes=made.target_bytes,
            )
            for output in run_bin(task, lambda _: None, lambda _, __: None).outputs:
                self._add(output.path, order.order_id if made.kernel == "sort" else 0)

    def settle(self, order: Clustering) -> int:
        """One pass; how many files it rewrote. A second one right after it must find nothing."""
        plan = self.plan(order)
        self.run(order, plan)
        again = self.plan(order)
        assert again.is_empty, (
            f"{[len(made.files) for made in again.bins]} of {len(self.files)} files again: {again.details}"
        )
        return sum(len(made.files) for made in plan.bins)


def _field(term: OrderTerm) -> SortField:
    return SortField(
        field_id=term.field_id, transform=term.transform, descending=term.descending, nulls_first=term.nulls_first
    )


def _usual(kind: str, number: int) -> Any:
    match kind:
        case "string":
            return f"{PREFIX}{number:05d}"
        case "binary":
            return f"{PREFIX}{number:05d}".encode()
        case "fixed[2]":
            return number.to_bytes(2, "big")
        case "boolean":
            return number % 2 == 0
        case "uuid":
            return uuid.UUID(int=number << 80)
        case "date":
            return pa.scalar(number - 1000, pa.int32()).cast(pa.date32()).as_py()
        case "time":
            return pa.scalar(number * 10**6, pa.int64()).cast(pa.time64("us")).as_py()
        case "timestamp" | "timestamptz":
            return pa.scalar(number * 7 * 10**8, pa.int64()).cast(VALUES[kind][0]).as_py()
        case "float" | "double":
            return number / 4 - 300
        case _ if kind.startswith("decimal"):
            return number
    return number - 700


@pytest.fixture(autouse=True, scope="module")
def small_files() -> Any:
    """Outputs of a few kilobytes, so that a bin gives a dozen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_BATCH_BYTES", (256, 1_000))
        patch.setattr(writing, "_FEWEST_GROUP_BYTES", 256)
        yield


def term(column: str, field_id: int, **more: Any) -> OrderTerm:
    return OrderTerm(column=column, field_id=field_id, **more)


def check_settles(order: Clustering, kind: str, seed: int, bounds: bool) -> None:
    with TemporaryDirectory() as folder:
        made = Ordered(Path(folder), kind, seed, bounds)
        made.append(6)
        assert made.settle(order) == 6, "files out of order are put in order"
        assert len(made.files) > 4
        assert all(order.holds(file) for file in made.files)
        for _ in range(3):
            made.append(2)
            assert made.settle(order) >= 2, "what came later is put in order too"
            assert all(order.holds(file) for file in made.files)


@pytest.mark.parametrize(("kind", "transform"), CASES)
@pytest.mark.conforms("M-221")
def test_a_second_pass_finds_nothing_to_sort_whatever_the_key_and_its_transform(kind: str, transform: str) -> None:
    check_settles(
        Clustering(kind="sort", terms=(term("k", KEY, transform=transform),), order_id=4), kind, 1, bounds=True
    )


@settings(max_examples=20, deadline=None)
@given(
    case=st.sampled_from(CASES),
    seed=st.integers(0, 2**32),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    bounds=st.booleans(),
    second=st.booleans(),
    own=st.booleans(),
)
def test_a_second_pass_finds_nothing_to_sort_in_any_direction_with_or_without_bounds(
    case: tuple[str, str], seed: int, descending: bool, nulls_first: bool, bounds: bool, second: bool, own: bool
) -> None:
    kind, transform = case
    first = term("k", KEY, transform=transform, descending=descending, nulls_first=nulls_first)
    terms: Sequence[OrderTerm] = (first, term("n", OTHER)) if second else (first,)
    check_settles(Clustering(kind="sort", terms=tuple(terms), order_id=3 if own else 0), kind, seed, bounds)


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
@pytest.mark.parametrize("kind", ["string", "double", "long", "timestamptz"])
def test_a_second_pass_finds_nothing_to_put_on_a_curve(curve: Any, kind: str) -> None:
    check_settles(Clustering(kind=curve, terms=(term("k", KEY), term("n", OTHER))), kind, 2, bounds=True)


def test_another_order_sorts_all_files_again_and_a_column_that_changed_its_name_none(tmp_path: Path) -> None:
    made = Ordered(tmp_path, "long", 3, bounds=True)
    made.append(6)
    by_key = Clustering(kind="sort", terms=(term("k", KEY),), order_id=1)
    assert made.settle(by_key) == 6
    many = len(made.files)
    renamed = Clustering(kind="sort", terms=(term("renamed", KEY),), order_id=1)
    assert made.settle(renamed) == 0
    orders = [
        Clustering(kind="sort", terms=(term("k", KEY, descending=True),), order_id=2),
        Clustering(kind="sort", terms=(term("k", KEY, transform="bucket[3]"),), order_id=3),
        Clustering(kind="sort", terms=(term("k", OTHER),), order_id=4),
        Clustering(kind="zorder", terms=(term("k", KEY), term("n", OTHER))),
        Clustering(kind="hilbert", terms=(term("k", KEY), term("n", OTHER))),
    ]
    for order in orders:
        assert made.settle(order) == many, order.render()
        many = len(made.files)


@pytest.mark.parametrize("transform", ["identity", "bucket[7]"])
def test_a_few_new_files_are_put_in_order_without_the_many_that_are_in_it(tmp_path: Path, transform: str) -> None:
    made = Ordered(tmp_path, "string", 5, bounds=True)
    made.append(12)
    order = Clustering(kind="sort", terms=(term("k", KEY, transform=transform),), order_id=1)
    assert made.settle(order) == 12
    many = len(made.files)
    assert many > 8
    made.append(1)
    assert made.settle(order) == 0, "one file waits for another"
    made.append(1)
    assert made.settle(order) == 2
    rewritten = []
    for _ in range(4):
        made.append(2)
        rewritten.append(made.settle(order))
    assert rewritten[:2] == [2, 2], "a look-up opens one file more with each pass, which is fewer than too many"
    assert max(rewritten) > many, "until it would open too many, and all are put in one order"


def test_files_that_another_writer_ordered_and_that_overlap_are_put_in_one_order_once(tmp_path: Path) -> None:
    made = Ordered(tmp_path, "long", 6, bounds=True)
    made.append(8)
    order = Clustering(kind="sort", terms=(term("k", KEY),), order_id=1)
    made.files = [replace(file, sort_order_id=1) for file in made.files]
    assert made.settle(order) == 8
