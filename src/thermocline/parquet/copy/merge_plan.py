"""Plan a merge: which row groups form which row group of which output, and which columns' pages are copied.

Pure: the inputs' footers in, a plan or a reason out. Nothing in a Parquet page depends on its position. So the pages of
several row groups may follow each other in one column chunk, provided that they share one dictionary and that readers
accept the mixture of encodings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.parquet.copy.reencode_column import CODECS
from thermocline.parquet.copy.splice import TRUSTED, is_full_before
from thermocline.parquet.footer.column_chunks import CannotMerge, ChunkFacts, GroupFacts, may_share_chunk, read_group
from thermocline.parquet.footer.footer import Footer
from thermocline.parquet.footer.leaf_columns import DISPUTED, Column, Leaf, ValueOrder, read_columns
from thermocline.parquet.rewrite_task import BinTask

GROUP_BYTES = 64 << 20
GROUP_PLAIN_BYTES = 128 << 20
GROUP_ROWS = 1 << 20
GROUP_INPUTS = 256
"""The largest number of row groups merged into one: each keeps its file open."""
MIN_PAGE_BYTES = 64 << 10
MIN_PAGE_VALUES = 8_192
"""Pages smaller than both on average are encoded again: a reader pays for each page."""
MOST_CHUNKS = 100_000
"""Each takes about a kilobyte of memory while a bin is planned."""
_DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""Errors of a footer that is valid Thrift with types other than Parquet's."""

_KNOWS_NAN = re.compile(rb"parquet-mr|DuckDB")
"""Writers that omit the bounds of a chunk with NaN; others compute bounds without NaN."""
LEAST_COPIED = 0.5
"""Below this share of a bin's bytes re-encoding, which uses two cores, is as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """A row group of the task's input of that index."""

    file: int
    facts: GroupFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOutput:
    """The inputs of one output, by index, and how their row groups are grouped."""

    files: tuple[int, ...]
    groups: tuple[tuple[GroupInput, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    columns: tuple[Column, ...]
    outputs: tuple[PlannedOutput, ...]


def plan_merge(task: BinTask, footers: Sequence[Footer]) -> MergePlan | str:
    """Plan the merge of inputs that could be spliced but have small row groups; or the reason to re-encode them."""
    if sum(len(group.chunks) for footer in footers for group in footer.groups) > MOST_CHUNKS:
        return "too many column chunks to plan with"
    try:
        columns = read_columns(footers[0].schema)
        groups = [[read_group(group) for group in footer.groups if group.rows] for footer in footers]
    except (CannotMerge, *_DAMAGED) as problem:
        return str(problem) if isinstance(problem, CannotMerge) else "a footer that is not understood"
    found = [group for file in groups for group in file]
    if reason := _why_not_merge(task, footers, columns, found):
        return reason
    outputs = tuple(_plan_output(files, groups, task.memory_bytes) for files in _cut_files(task))
    copied = sum(
        chunk.size_bytes
        for output in outputs
        for together in output.groups
        for column in columns
        if may_copy(column, together) and not needs_dictionary(column, together)
        for one in together
        for chunk in chunks_of(column, one.facts)
    )
    if copied < LEAST_COPIED * sum(group.size_bytes for group in found):
        return "small pages, or dictionaries in most columns"
    return MergePlan(columns=columns, outputs=outputs)


def why_bounds_mislead(footers: Sequence[Footer]) -> str | None:
    """Why chunks must not keep their statistics, although their row groups could be spliced."""
    reason = "misleading bounds of floats or UUIDs"
    try:
        leaves = [leaf for column in read_columns(footers[0].schema) for leaf in column.leaves]
        for footer in footers:
            orders = {ValueOrder.UUID} if _KNOWS_NAN.match(footer.created_by) else DISPUTED
            leaf_indexes = [index for index, leaf in enumerate(leaves) if leaf.order in orders]
            for group in footer.groups if leaf_indexes else ():
                chunks = read_group(group).chunks
                if any(
                    (statistics := chunks[index].statistics) is not None and (statistics.ends or statistics.old)
                    for index in leaf_indexes
                ):
                    return reason
    except (CannotMerge, *_DAMAGED):
        return reason  # it cannot be decided
    return None


def _why_not_merge(
    task: BinTask, footers: Sequence[Footer], columns: Sequence[Column], groups: Sequence[GroupFacts]
) -> str | None:
    leaves = [leaf for column in columns for leaf in column.leaves]
    codecs = {CODECS.get(chunk.codec) for group in groups for chunk in group.chunks}
    if codecs != {{"uncompressed": "none"}.get(task.compression, task.compression)}:
        return "the table's codec is another than the files'"
    if any(chunk.has_bloom for group in groups for chunk in group.chunks):
        return "bloom filters, which cannot be merged"
    if not all(TRUSTED.match(footer.created_by) for footer in footers):
        return "statistics of writers that not all readers trust"
    if any(not _fits(leaves, group) for group in groups):
        return "row groups that do not fit the schema"
    return None


def _fits(leaves: Sequence[Leaf], group: GroupFacts) -> bool:
    if len(leaves) != len(group.chunks):
        return False
    pairs = zip(leaves, group.chunks, strict=True)
    return all(
        chunk.kind == leaf.kind and (leaf.repetitions > 0 or chunk.values == group.rows) for leaf, chunk in pairs
    )


def _cut_files(task: BinTask) -> list[list[int]]:
    """The inputs of each output: whole files, cut as splice cuts them."""
    outputs: list[list[int]] = []
    size = 0
    for number, file in enumerate(task.inputs):
        if not outputs or is_full_before(size, file.size_bytes, task.target_bytes):
            outputs.append([])
            size = 0
        outputs[-1].append(number)
        size += file.size_bytes
    return outputs


def _plan_output(files: Sequence[int], groups: Sequence[Sequence[GroupFacts]], memory_bytes: int) -> PlannedOutput:
    """Row groups of even size, none far above its limits, so that no small one remains at the end."""
    inputs = [GroupInput(file=number, facts=facts) for number in files for facts in groups[number]]
    share = min(1.0, memory_bytes / (6 * GROUP_BYTES))
    weights = [_weight(one.facts, share) for one in inputs]
    count = max(1, math.ceil(sum(weights)))
    each, before = sum(weights) / count, 0.0
    together: list[list[GroupInput]] = [[] for _ in range(count)]
    for one, weight in zip(inputs, weights, strict=True):
        together[min(int((before + weight / 2) / each), count - 1)].append(one)
        before += weight
    return PlannedOutput(files=tuple(files), groups=tuple(tuple(found) for found in together if found))


def _weight(group: GroupFacts, share: float) -> float:
    """The share of an output row group that this one fills."""
    sizes = max(group.size_bytes / GROUP_BYTES, group.plain_bytes / GROUP_PLAIN_BYTES)
    return max(sizes / share, group.rows / GROUP_ROWS, 1 / GROUP_INPUTS)


def chunks_of(column: Column, group: GroupFacts) -> tuple[ChunkFacts, ...]:
    return group.chunks[column.first_leaf : column.first_leaf + len(column.leaves)]


def may_copy(column: Column, together: Sequence[GroupInput]) -> bool:
    """Whether the pages of these row groups may be copied into one chunk, and are large enough to be worth it. A single
    row group is always copied."""
    if len(together) == 1:
        return True
    by_leaf = zip(*(chunks_of(column, one.facts) for one in together), strict=True)
    return all(not _is_tiny(chunks) and may_share_chunk(chunks) for chunks in by_leaf)


def needs_dictionary(column: Column, together: Sequence[GroupInput]) -> bool:
    """Whether the pages can be copied only if all dictionaries are equal."""
    return len(together) > 1 and any(
        chunk.dictionary_page for one in together for chunk in chunks_of(column, one.facts)
    )


def _is_tiny(chunks: Sequence[ChunkFacts]) -> bool:
    pages = 0
    for chunk in chunks:
        if chunk.data_pages is None:
            return True
        pages += chunk.data_pages
    return (
        sum(chunk.plain_bytes for chunk in chunks) < MIN_PAGE_BYTES * pages
        and sum(c.values for c in chunks) < MIN_PAGE_VALUES * pages
    )
