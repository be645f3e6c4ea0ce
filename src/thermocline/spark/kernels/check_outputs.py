"""Check files that an external program wrote for a bin against the bin's inputs, before they are committed.

The program's own statements are not trusted. A file is accepted when its columns have the table's field ids and types
at every depth, its rows are exactly the live rows of the inputs (a checksum of each column and of whole rows), and its
footer makes no false statement about its values: manifest bounds, by which readers skip files, are made from it. Bloom
filters and column indexes are refused, because they cannot be checked here and a wrong one hides rows. Both sides are
read in batches, whatever their size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.errors.maintenance import OutsideThePlan
from thermocline.parquet.byte_files import FileSource, Pace
from thermocline.parquet.copy.splice import check_output
from thermocline.parquet.decode.input_reader import InputReader, open_parquet, read_batches
from thermocline.parquet.decode.live_rows import RowFilter, read_live_batches
from thermocline.parquet.decode.projection import FieldPath, value_at
from thermocline.parquet.deletes.equality_deletes import plan_keys
from thermocline.parquet.footer.file_schema import Element, find_differences, read_elements
from thermocline.parquet.footer.footer import FooterPatterns, read_footer
from thermocline.parquet.rewrite_task import BinTask, OutputFile
from thermocline.parquet.values.column_checksums import ColumnSums, no_rows, sum_columns
from thermocline.parquet.values.lake_schema import LakeSchema, read_lake_schema
from thermocline.runtime.file_io import flush_written, open_location

_REPEATED = 2


def check_replacement(task: BinTask, read: ColumnSums, paths: Sequence[str], pace: Pace) -> tuple[OutputFile, ...]:
    """Check and flush the files; the refusal names what differs. `read` are the checksums of the inputs, computed
    before the program ran."""
    lake = read_lake_schema(task.schema_json)
    reader = InputReader(task=task, lake=lake, pace=pace)
    written, outputs = no_rows(len(lake.fields)), []
    for path in paths:
        try:
            with FileSource(path, pace) as source:
                root = read_elements(read_footer(source, FooterPatterns(files=1)).schema)
            for difference in find_differences(lake, root):
                raise OutsideThePlan(
                    f"The external engine wrote {path} otherwise than the table is: {difference}; nothing was "
                    "committed."
                )
            written, output = _read_output(reader, root, path, written)
        except (
            LakeInputUnreadable,
            RewriteUnsupported,
            OSError,
            IndexError,
            KeyError,
            StopIteration,
            struct.error,
        ) as problem:
            raise OutsideThePlan(f"The external engine named {path}, which cannot be read: {problem}.") from None
        outputs.append(output)
    _check_sums(task, lake, read, written)
    for path in paths:
        flush_written(*open_location(path))
    return tuple(outputs)


def _read_output(reader: InputReader, root: Element, path: str, before: ColumnSums) -> tuple[ColumnSums, OutputFile]:
    with open_parquet(path) as opened:
        projection = reader.projection_of(opened, path)
        metadata = opened.metadata
        for group in range(metadata.num_row_groups):
            _check_nothing_unchecked(metadata.row_group(group), path)
            ends = [_ValueRange(leaf=leaf, field_path=field_path) for leaf, field_path in _leaves(root)]
            for batch in read_batches(opened, path, projection.columns, reader.row_bytes, reader.pace, groups=[group]):
                before += sum_columns(projection.apply(batch, frozenset()))
                for one in ends:
                    one.add(batch)
            for one in ends:
                if untrue := one.find_untrue(metadata.row_group(group).column(one.leaf)):
                    column = metadata.row_group(group).column(one.leaf).path_in_schema
                    raise OutsideThePlan(
                        f"The footer of {path}, which the external engine wrote, says of column {column} "
                        f"{untrue}; nothing was committed."
                    )
        rows, groups = metadata.num_rows, metadata.num_row_groups
    return before, check_output(path, rows, groups)


def _check_nothing_unchecked(group: pq.RowGroupMetaData, path: str) -> None:
    """Refuse structures that hide rows when they are wrong and that cannot be checked against the values."""
    for number in range(group.num_columns):
        chunk = group.column(number)
        what = (
            "a bloom filter"
            if chunk.bloom_filter_offset is not None
            else "a column index"
            if chunk.has_column_index
            else None
        )
        if what is not None:
            raise OutsideThePlan(
                (
                    f"The external engine gave column {chunk.path_in_schema} of {path} {what}, which cannot be "
                    "checked; nothing was committed."
                ),
                hint="Let the program write its files without bloom filters and page indexes.",
            )


def sum_inputs(task: BinTask, pace: Pace) -> ColumnSums:
    """The checksums of the inputs' live rows."""
    lake = read_lake_schema(task.schema_json)
    plans = plan_keys(task, lake)
    reader = InputReader(
        task=task, lake=lake, pace=pace, also=tuple(sorted({number for plan in plans for number in plan.ids}))
    )
    found = no_rows(len(lake.fields))
    for kept in read_live_batches(task, reader, RowFilter(task, plans, reader, pace)):
        found += sum_columns(kept.batch)
    return found


def _check_sums(task: BinTask, lake: LakeSchema, read: ColumnSums, written: ColumnSums) -> None:
    if read.rows != written.rows:
        raise OutsideThePlan(
            f"Bin {task.number} has {read.rows:,} rows, and the external engine wrote {written.rows:,}; "
            "nothing was committed."
        )
    if differing := read.differing(written, [field.name for field in lake.fields]):
        names = ", ".join(differing)
        raise OutsideThePlan(
            f"The external engine wrote other values for bin {task.number}, in column {names}; nothing was committed."
        )
    if read.whole != written.whole:
        raise OutsideThePlan(
            f"The external engine moved values of bin {task.number} from row to row; nothing was committed."
        )


def _leaves(root: Element) -> Iterator[tuple[int, FieldPath]]:
    """Each leaf outside of lists, by its index, with the path to it through structs."""
    number = 0

    def walk(element: Element, field_path: FieldPath, repeated: bool) -> Iterator[tuple[int, FieldPath]]:
        nonlocal number
        repeated = repeated or element.fields.get(3) == _REPEATED
        if not element.children:
            if not repeated:
                yield number, field_path
            number += 1
        for at, child in enumerate(element.children):
            yield from walk(child, (*field_path, at), repeated)

    yield from walk(root, (), False)


@dataclass(slots=True, kw_only=True)
class _ValueRange:
    """The lowest and highest value of a leaf in a row group."""

    leaf: int
    field_path: FieldPath
    nulls: int = 0
    nans: int = 0
    low: Any = None
    high: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        array = value_at(batch.column(self.field_path[0]), self.field_path[1:])
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        self.nulls += array.null_count
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        if pa.types.is_floating(array.type):
            is_nan = pc.is_nan(array)
            self.nans += int(pc.sum(is_nan).as_py() or 0)
            array = array.filter(pc.invert(is_nan))
        found = pc.min_max(array)
        if found["min"].is_valid:
            low, high = found["min"].as_py(), found["max"].as_py()
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def find_untrue(self, chunk: pq.ColumnChunkMetaData) -> str | None:
        """A statement of the chunk's metadata that its values contradict, or that cannot be checked."""
        statistics = chunk.statistics
        if statistics is None:
            return None
        if statistics.has_null_count and statistics.null_count != self.nulls:
            return f"that {statistics.null_count} of its values are NULL, and {self.nulls} are"
        if statistics.has_min_max and self.nans:
            return (
                f"that its values lie between {statistics.min!r} and {statistics.max!r}, and {self.nans} of them "
                "are NaN"
            )
        if statistics.has_min_max and statistics.logical_type.type == "UUID":
            return (
                f"that its values lie between {statistics.min!r} and {statistics.max!r}, which readers of UUIDs "
                "take differently"
            )
        if not statistics.has_min_max or self.low is None:
            return None
        low, high = _align_zone(statistics.min, self.low), _align_zone(statistics.max, self.high)
        if low > self.low or high < self.high:
            return (
                f"that its values lie between {low!r} and {high!r}, and they lie between {self.low!r} and {self.high!r}"
            )
        return None


def _align_zone(bound: Any, value: Any) -> Any:
    """A bound in the form of a value: Arrow returns timestamps in statistics without their time zone."""
    zone = getattr(value, "tzinfo", None)
    return bound.replace(tzinfo=zone) if zone is not None and bound.tzinfo is None else bound
