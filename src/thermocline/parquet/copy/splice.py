"""Splice: copy row groups byte for byte into a new file, and write one new footer.

Offsets shift with the bytes; page indexes and bloom filters are copied too. Inputs that do not fit together are
re-encoded: `why_not_splice` gives the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from thermocline.errors import LakeInputUnreadable
from thermocline.parquet.byte_files import FileSink, FileSource, Pace, Register
from thermocline.parquet.decode.input_reader import naming_file
from thermocline.parquet.decode.row_lineage import carries_lineage
from thermocline.parquet.encode.lake_writer import open_location
from thermocline.parquet.footer.file_metrics import group_offset
from thermocline.parquet.footer.footer import (
    MAGIC,
    Footer,
    FooterPatterns,
    bloom_size,
    has_field_ids,
    read_footer,
    render_footer,
    render_group,
    shift_offset_index,
)
from thermocline.parquet.footer.row_group_bytes import OffsetKind, RowGroup
from thermocline.parquet.rewrite_errors import damaged
from thermocline.parquet.rewrite_task import BinResult, BinTask, InputFile, Kernel, OutputFile, RowMap

_MAX_GROUPS = 32_767
_MAX_FOOTER_BYTES = 64 << 20
_BLOOM_HEADER_BYTES = 64
_MADE_BY = b"thermocline version 1.0 (build 0)"
TRUSTED = re.compile(
    rb"(parquet-mr version 1\.1[0-9]|parquet-cpp-arrow version ([4-9]|\d\d)|parquet-rs|DuckDB|Polars|Velox|thermocline)"
)
"""Writers whose statistics all readers trust: files of several of them may share a footer."""


def read_footers(task: BinTask, pace: Pace) -> list[Footer]:
    """Read the footers of all inputs and check them against the manifest entries."""
    found: list[Footer] = []
    patterns = FooterPatterns(files=len(task.inputs))
    for file in task.inputs:
        with FileSource(file.path, pace) as source:
            footer = read_footer(source, patterns)
        if file.record_count and footer.rows != file.record_count and not footer.encrypted:
            raise LakeInputUnreadable(
                f"Lake file {file.path} holds {footer.rows} rows, the table says {file.record_count}."
            )
        found.append(footer)
    return found


def why_not_splice(task: BinTask, footers: Sequence[Footer]) -> str | None:
    """Why the inputs must be re-encoded, or None."""
    first = footers[0]
    groups = [group for footer in footers for group in footer.groups]
    if task.sort:
        return "a sort is requested"
    if any(file.deletes for file in task.inputs):
        return "deletes apply"
    if task.keep_lineage and not carries_lineage(task.inputs):
        return "each row's id has to be written"
    if any(footer.encrypted for footer in footers) or any(
        chunk.elsewhere for group in groups for chunk in group.chunks
    ):
        return "encrypted or scattered column chunks"
    if any(footer.schema != first.schema or footer.column_orders != first.column_orders for footer in footers):
        return "the files' schemas differ"
    if not has_field_ids(first.schema):
        # and so would the output: Iceberg would read its bounds by column position
        return "the files have no field ids"
    if len({tuple(chunk.codec for chunk in group.chunks) for group in groups}) > 1:
        return "the files' codecs differ"
    makers = {footer.created_by for footer in footers}
    if len(makers) > 1 and not all(TRUSTED.match(maker) for maker in makers):
        return "statistics of writers that not all readers trust"
    if len(groups) > _MAX_GROUPS or sum(footer.size_bytes for footer in footers) > _MAX_FOOTER_BYTES:
        return "too many row groups for one footer"
    return None


def why_too_small(task: BinTask, footers: Sequence[Footer]) -> str | None:
    """Why row groups that could be spliced should be merged into larger ones, or None."""
    groups = sum(len(footer.groups) for footer in footers)
    data = sum(file.size_bytes for file in task.inputs)
    if groups and data / groups < task.splice_min_row_group_bytes:
        return f"row groups of {data // groups} bytes on average, below {task.splice_min_row_group_bytes}"
    return None


def splice(task: BinTask, footers: Sequence[Footer], register: Register, pace: Pace) -> BinResult:
    """Write the outputs of a bin whose inputs fit together."""
    pairs = common_key_values(footers)
    made_by = choose_created_by(footers)
    outputs: list[OutputFile] = []
    maps: list[RowMap] = []
    current: _Output | None = None
    try:
        for file, footer in zip(task.inputs, footers, strict=True):
            if current is not None and is_full_before(current.data_bytes, file.size_bytes, task.target_bytes):
                outputs.append(current.finish(footers[0], pairs, made_by))
                current = None
            if current is None:
                current = _Output(sink=FileSink(output_path(task, len(outputs)), register, pace))
            maps.append(RowMap(input_path=file.path, output=len(outputs), first_row=current.rows, rows=footer.rows))
            current.add(file, footer, pace)
        if current is not None:
            outputs.append(current.finish(footers[0], pairs, made_by))
    except BaseException:
        if current is not None:
            current.sink.abandon()
        raise
    return make_copy_result(task, "splice", footers, outputs, maps)


def make_copy_result(
    task: BinTask,
    kernel: Kernel,
    footers: Sequence[Footer],
    outputs: Sequence[OutputFile],
    maps: Sequence[RowMap],
    note: str = "",
) -> BinResult:
    """The result of a bin whose rows were all copied, in order."""
    rows = sum(footer.rows for footer in footers)
    return BinResult(
        number=task.number,
        kernel=kernel,
        outputs=tuple(outputs),
        rows_read=rows,
        rows_written=rows,
        bytes_read=sum(file.size_bytes for file in task.inputs),
        bytes_written=sum(output.size_bytes for output in outputs),
        row_maps=tuple(maps),
        note=note,
    )


def output_path(task: BinTask, number: int) -> str:
    return f"{task.directory.rstrip('/')}/{task.name_prefix}-{number}.parquet"


def choose_created_by(footers: Sequence[Footer]) -> bytes:
    """The outputs' `created_by`: the inputs' writer when all inputs have the same."""
    makers = {footer.created_by for footer in footers}
    return makers.pop() if len(makers) == 1 else _MADE_BY


def is_full_before(size_bytes: int, next_bytes: int, target_bytes: int) -> bool:
    """Whether an output of this size is closed before it takes the next file."""
    return size_bytes >= 0.75 * target_bytes and size_bytes + next_bytes > 1.05 * target_bytes


def common_key_values(footers: Sequence[Footer]) -> dict[bytes, bytes | None]:
    """Key-value metadata that all files share. The newest file's schema stands for all of them: readers go by field
    ids."""
    last = footers[-1].pairs
    return {
        key: value
        for key, value in last.items()
        if key == b"iceberg.schema" or all(footer.pairs.get(key, b"") == value for footer in footers)
    }


@dataclass(slots=True)
class _CopiedRowGroup:
    """A row group in the output: the shift of its data, the offsets of its bloom filters, and its page indexes, which
    are still to be written."""

    group: RowGroup
    shift: int
    blooms: list[int]
    column_indexes: list[bytes]
    offset_indexes: list[bytes]


@dataclass(slots=True)
class _Output:
    sink: FileSink
    rows: int = 0
    data_bytes: int = 0
    groups: list[_CopiedRowGroup] = field(default_factory=list)

    def add(self, file: InputFile, footer: Footer, pace: Pace) -> None:
        """Copy all row groups of a file."""
        if self.sink.at == 0:
            self.sink.write(MAGIC)
        self.rows += footer.rows
        self.data_bytes += file.size_bytes
        chunks = [chunk for group in footer.groups for chunk in group.chunks]
        if not chunks:
            return
        begin, end = min(chunk.start for chunk in chunks), max(chunk.end for chunk in chunks)
        with FileSource(file.path, pace) as source:
            if source.size_bytes - footer.size_bytes - 8 != footer.data_end:
                raise damaged(file.path, "it changed while it was read")
            shift = self.sink.at - begin
            self.sink.copy(source, begin, end - begin)
            source.tail()
            for group in footer.groups:
                self.groups.append(self._carry(source, group, shift))

    def _carry(self, source: FileSource, group: RowGroup, shift: int) -> _CopiedRowGroup:
        carried = _CopiedRowGroup(group=group, shift=shift, blooms=[], column_indexes=[], offset_indexes=[])
        for chunk in group.chunks:
            offset, size = chunk.bloom
            if offset > 0:
                size = size or _bloom_size(source, offset)
                carried.blooms.append(self.sink.at)
                self.sink.copy(source, offset, size)
            else:
                carried.blooms.append(0)
            carried.column_indexes.append(source.read_at(*chunk.column_index) if chunk.column_index[0] else b"")
            found = source.read_at(*chunk.offset_index) if chunk.offset_index[0] else b""
            try:
                carried.offset_indexes.append(shift_offset_index(found, shift) if found else b"")
            except (IndexError, ValueError, RecursionError) as problem:
                raise damaged(source.path, "its page index is damaged") from problem
        return carried

    def finish(self, like: Footer, pairs: dict[bytes, bytes | None], made_by: bytes) -> OutputFile:
        """Write the page indexes and the footer, then read the file back."""
        locations = {
            OffsetKind.COLUMN_INDEX: self._write_indexes("column_indexes"),
            OffsetKind.OFFSET_INDEX: self._write_indexes("offset_indexes"),
        }
        groups = [_render(carried, number, locations) for number, carried in enumerate(self.groups)]
        self.sink.write(render_footer(like, groups, self.rows, pairs, made_by))
        self.sink.close()
        return check_output(self.sink.path, self.rows, len(groups))

    def _write_indexes(self, which: str) -> list[list[int]]:
        """Write one kind of page index for all row groups; returns their offsets."""
        locations, parts, at = [], [], self.sink.at
        for carried in self.groups:
            found: list[bytes] = getattr(carried, which)
            starts = []
            for data in found:
                starts.append(at if data else 0)
                at += len(data)
            parts += found
            locations.append(starts)
        self.sink.write(b"".join(parts))
        return locations


def _render(carried: _CopiedRowGroup, number: int, locations: dict[OffsetKind, list[list[int]]]) -> bytes:
    shift, blooms, grown = carried.shift, carried.blooms, carried.offset_indexes
    column_indexes, offset_indexes = (
        locations[OffsetKind.COLUMN_INDEX][number],
        locations[OffsetKind.OFFSET_INDEX][number],
    )
    moved = []
    for offset_kind, value, chunk in carried.group.numbers:
        if offset_kind is OffsetKind.DATA:
            moved.append(value + shift if value > 0 else value)
        elif offset_kind is OffsetKind.COLUMN_INDEX:
            moved.append(column_indexes[chunk])
        elif offset_kind is OffsetKind.OFFSET_INDEX:
            moved.append(offset_indexes[chunk])
        elif offset_kind is OffsetKind.OFFSET_INDEX_LENGTH:
            # Larger offsets take more bytes, so an index grows when its pages shift.
            moved.append(len(grown[chunk]))
        else:
            moved.append(number if offset_kind is OffsetKind.ORDINAL else blooms[chunk])
    return render_group(carried.group, moved)


def _bloom_size(source: FileSource, offset: int) -> int:
    try:
        return bloom_size(source.read_at(offset, min(_BLOOM_HEADER_BYTES, source.size_bytes - offset)))
    except (IndexError, ValueError, RecursionError) as problem:
        raise damaged(source.path, "a bloom filter is damaged") from problem


def check_output(path: str, rows: int, groups: int) -> OutputFile:
    """Read back what the commit needs to know of a finished file."""
    filesystem, inner = open_location(path)
    with naming_file(path), filesystem.open_input_file(inner) as source:
        size = source.size()
        metadata = pq.ParquetFile(source).metadata
    if metadata.num_rows != rows or metadata.num_row_groups != groups:
        raise damaged(
            path, f"{metadata.num_rows} rows in {metadata.num_row_groups} row groups instead of {rows} in {groups}"
        )
    offsets = tuple(group_offset(metadata.row_group(number)) for number in range(metadata.num_row_groups))
    return OutputFile(path=path, size_bytes=size, rows=rows, split_offsets=offsets)
