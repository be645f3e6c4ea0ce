"""Merge: copy the pages of several row groups into one column chunk, so that small row groups become large ones without
decoding.

A column whose dictionaries differ, or whose pages are tiny, is decoded and encoded again; the other columns are still
copied. Statistics and page indexes are merged. Those that cannot be merged are left out. `plan_merge` decides which
bins qualify.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from thermocline.parquet.byte_files import FileSink, FileSource, Pace, Register
from thermocline.parquet.copy.merge_plan import (
    GroupInput,
    MergePlan,
    PlannedOutput,
    chunks_of,
    may_copy,
    needs_dictionary,
)
from thermocline.parquet.copy.reencode_column import ColumnPart, EncodedChunk, reencode_column, shift_chunk
from thermocline.parquet.copy.splice import (
    check_output,
    choose_created_by,
    common_key_values,
    make_copy_result,
    output_path,
)
from thermocline.parquet.footer.column_chunks import (
    CannotMerge,
    ChunkFacts,
    GroupFacts,
    WrittenChunk,
    merge_chunks,
    render_row_group,
)
from thermocline.parquet.footer.footer import MAGIC, Footer, render_footer
from thermocline.parquet.footer.leaf_columns import DISPUTED, Column, Leaf
from thermocline.parquet.footer.page_indexes import ShiftedPages, merge_column_indexes, merge_offset_indexes
from thermocline.parquet.rewrite_errors import damaged
from thermocline.parquet.rewrite_task import BinResult, BinTask, OutputFile, RowMap
from thermocline.parquet.thrift.structs import read_struct

_DICTIONARY_PAGE = 2


def merge(
    task: BinTask, footers: Sequence[Footer], plan: MergePlan, register: Register, pace: Pace, note: str = ""
) -> BinResult:
    """Write the outputs of a bin. Raises CannotMerge when a file contradicts its footer."""
    outputs: list[OutputFile] = []
    maps: list[RowMap] = []
    again: dict[str, None] = {}
    for planned in plan.outputs:
        output = _Output(
            task=task, footers=footers, columns=plan.columns, pace=pace, sink=_sink(task, len(outputs), register, pace)
        )
        try:
            finished = output.write(planned)
        except BaseException:
            output.sink.abandon()
            raise
        maps.extend(_row_maps(task, footers, planned, len(outputs)))
        outputs.append(finished)
        again.update(dict.fromkeys(output.again))
    note += f"; encoded again: {', '.join(sorted(again))}" if again else ""
    return make_copy_result(task, "merge", footers, outputs, maps, note)


def _sink(task: BinTask, number: int, register: Register, pace: Pace) -> FileSink:
    return FileSink(output_path(task, number), register, pace)


def _row_maps(task: BinTask, footers: Sequence[Footer], planned: PlannedOutput, output: int) -> Iterator[RowMap]:
    first_row = 0
    for number in planned.files:
        yield RowMap(input_path=task.inputs[number].path, output=output, first_row=first_row, rows=footers[number].rows)
        first_row += footers[number].rows


@dataclass(slots=True)
class _OpenRowGroup:
    """A row group whose pages are copied. From an object store it is read in one request and kept in memory."""

    group: GroupFacts
    source: FileSource
    first_row: int
    _begin: int = 0
    _held: bytes | None = None

    def hold(self) -> None:
        if self.source.descriptor < 0:
            self._begin = min(chunk.start for chunk in self.group.chunks)
            self._held = self.source.read_at(self._begin, max(chunk.end for chunk in self.group.chunks) - self._begin)

    def read(self, begin: int, end: int) -> bytes:
        if self._held is not None:
            return self._held[begin - self._begin : end - self._begin]
        return self.source.read_at(begin, end - begin)

    def copy(self, begin: int, end: int, sink: FileSink) -> None:
        if self._held is not None:
            sink.write(self._held[begin - self._begin : end - self._begin])
        else:
            sink.copy(self.source, begin, end - begin)

    def pages_of(self, chunk: ChunkFacts, shift: int) -> ShiftedPages:
        read = self.source.read_at
        return ShiftedPages(
            offset_index=read(*chunk.offset_index) if chunk.offset_index[0] else b"",
            column_index=read(*chunk.column_index) if chunk.column_index[0] else b"",
            begin=chunk.data_page,
            end=chunk.end,
            shift=shift,
            first_row=self.first_row,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergedChunk:
    """A chunk of the output, with the page indexes that are still to be written."""

    facts: ChunkFacts
    offset_index: bytes
    column_index: bytes


@dataclass(slots=True)
class _Output:
    task: BinTask
    footers: Sequence[Footer]
    columns: Sequence[Column]
    pace: Pace
    sink: FileSink
    again: list[str] = field(default_factory=list)
    """Names of the columns that were encoded again."""

    def write(self, planned: PlannedOutput) -> OutputFile:
        """Write the whole file, then read it back."""
        self.sink.write(MAGIC)
        groups = [(sum(one.facts.rows for one in together), self._write_group(together)) for together in planned.groups]
        rows = sum(self.footers[number].rows for number in planned.files)
        placed = self._write_indexes([chunks for _, chunks in groups])
        rendered = [
            render_row_group(GroupFacts(rows=count, chunks=chunks), number)
            for number, ((count, _), chunks) in enumerate(zip(groups, placed, strict=True))
        ]
        self.sink.write(
            render_footer(
                self.footers[0], rendered, rows, common_key_values(self.footers), choose_created_by(self.footers)
            )
        )
        self.sink.close()
        return check_output(self.sink.path, rows, len(rendered))

    def _write_group(self, together: Sequence[GroupInput]) -> list[_MergedChunk]:
        with ExitStack() as stack:
            opened = self._open(together, stack)
            return [chunk for column in self.columns for chunk in self._write_column(column, together, opened)]

    def _open(self, together: Sequence[GroupInput], stack: ExitStack) -> list[_OpenRowGroup]:
        sources: dict[int, FileSource] = {}
        found: list[_OpenRowGroup] = []
        first_row = 0
        for one in together:
            if one.file not in sources:
                path, footer = self.task.inputs[one.file].path, self.footers[one.file]
                source = sources[one.file] = stack.enter_context(FileSource(path, self.pace))
                if source.size_bytes - footer.size_bytes - 8 != footer.data_end:
                    raise damaged(path, "it changed while it was read")
                source.tail()
            found.append(_OpenRowGroup(group=one.facts, source=sources[one.file], first_row=first_row))
            found[-1].hold()
            first_row += one.facts.rows
        return found

    def _write_column(
        self, column: Column, together: Sequence[GroupInput], opened: Sequence[_OpenRowGroup]
    ) -> list[_MergedChunk]:
        """Write all chunks of a column: pages are copied where possible, else encoded again."""
        by_leaf = list(zip(*(chunks_of(column, one.group) for one in opened), strict=True))
        dictionaries: list[bytes] | None = [b""] * len(by_leaf)
        if not may_copy(column, together):
            dictionaries = None
        elif needs_dictionary(column, together):
            dictionaries = _common_dictionaries(by_leaf, opened)
        if dictionaries is None:
            self.again.append(column.name)
            return self._encode(column, opened)
        leaves = zip(column.leaves, by_leaf, dictionaries, strict=True)
        return [self._copy(leaf, chunks, dictionary, opened) for leaf, chunks, dictionary in leaves]

    def _copy(
        self, leaf: Leaf, chunks: Sequence[ChunkFacts], dictionary: bytes, opened: Sequence[_OpenRowGroup]
    ) -> _MergedChunk:
        begin = self.sink.at
        if dictionary:
            self.sink.write(dictionary)
        elif len(chunks) == 1 and chunks[0].dictionary_page:
            opened[0].copy(chunks[0].dictionary_page, chunks[0].data_page, self.sink)
        data_page = self.sink.at
        moved = []
        for chunk, one in zip(chunks, opened, strict=True):
            moved.append(one.pages_of(chunk, self.sink.at - chunk.data_page))
            one.copy(chunk.data_page, chunk.end, self.sink)
        repeated = max(sum(chunk.dictionary_page > 0 for chunk in chunks) - 1, 0)
        plain = sum(chunk.plain_bytes for chunk in chunks) - (
            repeated * _dictionary_plain_bytes(dictionary) if repeated else 0
        )
        written = WrittenChunk(
            data_page=data_page,
            dictionary_page=begin if data_page > begin else 0,
            size_bytes=self.sink.at - begin,
            plain_bytes=plain,
        )
        return _merge_chunk(leaf, merge_chunks(leaf, chunks, written), moved)

    def _encode(self, column: Column, opened: Sequence[_OpenRowGroup]) -> list[_MergedChunk]:
        parts = []
        for one in opened:
            chunks = chunks_of(column, one.group)
            data = tuple(one.read(chunk.start, chunk.end) for chunk in chunks)
            parts.append(ColumnPart(rows=one.group.rows, chunks=chunks, data=data))
        encoded = reencode_column(
            column, parts, choose_created_by(self.footers), self.task.compression_level, self.task.memory_bytes // 3
        )
        return [self._append(leaf, chunk) for leaf, chunk in zip(column.leaves, encoded, strict=True)]

    def _append(self, leaf: Leaf, chunk: EncodedChunk) -> _MergedChunk:
        shift = self.sink.at - chunk.facts.start
        self.sink.write(chunk.data)
        pages = ShiftedPages(
            offset_index=chunk.offset_index,
            column_index=chunk.column_index,
            begin=chunk.facts.data_page,
            end=chunk.facts.end,
            shift=shift,
            first_row=0,
        )
        return _merge_chunk(leaf, shift_chunk(chunk.facts, shift), [pages])

    def _write_indexes(self, groups: Sequence[Sequence[_MergedChunk]]) -> list[tuple[ChunkFacts, ...]]:
        """Write all page indexes; returns the chunks of each row group with the locations of their indexes."""
        at, parts = self.sink.at, []
        locations: dict[tuple[int, int, int], tuple[int, int]] = {}
        for which in (0, 1):
            for number, chunks in enumerate(groups):
                for index, chunk in enumerate(chunks):
                    data = chunk.column_index if which == 0 else chunk.offset_index
                    locations[number, index, which] = (at, len(data)) if data else (0, 0)
                    parts.append(data)
                    at += len(data)
        self.sink.write(b"".join(parts))
        return [
            tuple(
                replace(chunk.facts, column_index=locations[number, index, 0], offset_index=locations[number, index, 1])
                for index, chunk in enumerate(chunks)
            )
            for number, chunks in enumerate(groups)
        ]


def _merge_chunk(leaf: Leaf, facts: ChunkFacts, pages: Sequence[ShiftedPages]) -> _MergedChunk:
    try:
        offset_index, counts = merge_offset_indexes(pages)
        column_index = b"" if leaf.order in DISPUTED else merge_column_indexes(pages, counts)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as problem:
        raise CannotMerge("a page index that is damaged") from problem
    return _MergedChunk(facts=facts, offset_index=offset_index, column_index=column_index)


def _common_dictionaries(
    by_leaf: Sequence[Sequence[ChunkFacts]], opened: Sequence[_OpenRowGroup]
) -> list[bytes] | None:
    """The dictionary that all chunks of each leaf share (empty when they have none); None when they differ."""
    found = []
    for chunks in by_leaf:
        having = [(chunk, one) for chunk, one in zip(chunks, opened, strict=True) if chunk.dictionary_page]
        if len({chunk.data_page - chunk.dictionary_page for chunk, _ in having}) > 1:
            return None
        pages = {one.read(chunk.dictionary_page, chunk.data_page) for chunk, one in having}
        if len(pages) > 1:
            return None
        found.append(pages.pop() if pages else b"")
    return found


def _dictionary_plain_bytes(page: bytes) -> int:
    """The uncompressed size of a dictionary page, its header included."""
    try:
        header, after = read_struct(page)
        if header[1] != _DICTIONARY_PAGE or after + header[3] != len(page):
            raise CannotMerge("a dictionary page that is none")
        return after + int(header[2])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as problem:
        raise CannotMerge("a dictionary page that is damaged") from problem
