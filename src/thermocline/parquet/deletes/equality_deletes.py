"""Equality deletes: delete the rows of a bin whose key columns equal a key of a delete file that applies.

All inputs of a bin are in one partition, so the sets of delete files that apply to them mostly nest: more apply to
older inputs. Each key is kept once, with the highest level among its delete files; a row is deleted when its key's
level reaches its file's. Where the sets do not nest, each set has its own keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.parquet.byte_files import Pace
from thermocline.parquet.decode.input_reader import open_parquet, read_batches
from thermocline.parquet.decode.projection import constant_array, find_field, value_at, with_mapped_ids
from thermocline.parquet.rewrite_errors import damaged
from thermocline.parquet.rewrite_task import BinTask
from thermocline.parquet.values.key_words import (
    Mask,
    Words,
    as_bytes,
    combine_words,
    exact_words,
    hash_words,
    is_exact,
    mix_words,
    null_mask,
)
from thermocline.parquet.values.lake_schema import LakeSchema, default_scalar

Levels = npt.NDArray[np.int32]
_EXACT_BYTES, _ENTRY_BYTES = 25, 40
"""The bytes of a key besides its values: word and level, twice while they are sorted; with values also its row
number."""
_MEMORY_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyPlan:
    """One set of equality columns: its delete files with their levels, and for each input the level from which its rows
    are deleted."""

    ids: tuple[int, ...]
    kinds: tuple[pa.DataType, ...]
    level_of_delete: Mapping[int, int]
    level_of_input: Mapping[int, int]

    @property
    def is_exact(self) -> bool:
        """Whether the key is one column of at most 64 bits, so that its value alone identifies it."""
        return len(self.kinds) == 1 and is_exact(self.kinds[0])


def plan_keys(task: BinTask, lake: LakeSchema) -> tuple[KeyPlan, ...]:
    """Plan what to compare: one plan for each set of equality columns, more where the sets of delete files do not
    nest."""
    groups: dict[tuple[int, ...], dict[int, frozenset[int]]] = {}
    for number, file in enumerate(task.inputs):
        applying = [delete for delete in file.deletes if task.deletes[delete].kind == "equality"]
        for ids in {tuple(sorted(task.deletes[delete].equality_ids)) for delete in applying}:
            chosen = frozenset(d for d in applying if tuple(sorted(task.deletes[d].equality_ids)) == ids)
            groups.setdefault(ids, {})[number] = chosen
    plans = []
    for ids, inputs in groups.items():
        kinds = tuple(_key_kind(task, lake, number, inputs) for number in ids)
        for chain in _chains(inputs):
            plans.append(_plan_chain(ids, kinds, chain, inputs))
    return tuple(plans)


def _chains(inputs: Mapping[int, frozenset[int]]) -> list[list[frozenset[int]]]:
    """Group the sets of delete files into chains of growing sets; one chain when all of them nest."""
    ordered = sorted(set(inputs.values()), key=lambda chosen: (len(chosen), sorted(chosen)))
    if all(small < large for small, large in pairwise(ordered)):
        return [ordered]
    return [[chosen] for chosen in ordered]


def _plan_chain(
    ids: tuple[int, ...],
    kinds: tuple[pa.DataType, ...],
    chain: list[frozenset[int]],
    inputs: Mapping[int, frozenset[int]],
) -> KeyPlan:
    top = len(chain)
    levels: dict[int, int] = {}
    for number, chosen in enumerate(chain):
        for delete in chosen:
            levels.setdefault(delete, top - number)
    return KeyPlan(
        ids=ids,
        kinds=kinds,
        level_of_delete=levels,
        level_of_input={number: top - chain.index(chosen) for number, chosen in inputs.items() if chosen in chain},
    )


def _key_kind(task: BinTask, lake: LakeSchema, number: int, inputs: Mapping[int, frozenset[int]]) -> pa.DataType:
    """The type in which keys are compared: the table's, or the delete file's where the column has been dropped."""
    if field := lake.find(number):
        return field.kind
    source = task.deletes[min(min(chosen) for chosen in inputs.values())]
    with open_parquet(source.path) as file:
        schema = with_mapped_ids(file.schema_arrow, task.name_mapping, source.path)
        field_path = find_field(schema, number)
        if not field_path:
            raise damaged(source.path, f"it lacks its own equality column, field {number}")
        kind = schema.field(field_path[0]).type
        for step in field_path[1:]:
            kind = kind.field(step).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def key_columns(
    plan: KeyPlan, schema: pa.Schema, batch: pa.RecordBatch, lake: LakeSchema, constants: Mapping[int, object]
) -> list[pa.Array]:
    """A data file's key columns, by field id. A column that the file lacks has its default, or the partition's
    value."""
    return [
        _key_column(number, kind, schema, batch, lake, constants)
        for number, kind in zip(plan.ids, plan.kinds, strict=True)
    ]


def _key_column(
    number: int,
    kind: pa.DataType,
    schema: pa.Schema,
    batch: pa.RecordBatch,
    lake: LakeSchema,
    constants: Mapping[int, object],
) -> pa.Array:
    field_path = find_field(schema, number)
    if not field_path:
        field = lake.find(number)
        value = constants.get(number, field.initial_default if field else None)
        return constant_array(default_scalar(value, kind), batch.num_rows)
    column = batch.column(batch.schema.get_field_index(schema.field(field_path[0]).name))
    return _in_kind(value_at(column, field_path[1:]), kind)


def _in_kind(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array.cast(kind)


def passes_for(task: BinTask, plans: Sequence[KeyPlan]) -> int:
    """The number of parts in which keys must be processed to stay within the task's memory."""
    total = 0
    for plan in plans:
        for delete in plan.level_of_delete:
            with open_parquet(task.deletes[delete].path) as file:
                metadata = file.metadata
                plain = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
                total += metadata.num_rows * (_EXACT_BYTES if plan.is_exact else _ENTRY_BYTES) + (
                    0 if plan.is_exact else 2 * plain
                )
    return max(1, int(np.ceil(total / (task.memory_bytes * _MEMORY_SHARE))))


class KeySet:
    """The keys of one plan, or of one part of it, sorted by word. `null_level` is the level of a NULL key, where NULL
    has no word."""

    def __init__(
        self, plan: KeyPlan, words: Words, levels: Levels, columns: list[pa.Array], null_level: int = 0
    ) -> None:
        self._plan = plan
        self._null_level = null_level
        self._columns = columns
        self._key_rows: npt.NDArray[np.int64] | None = None
        if not columns and len(plan.level_of_delete) == 1:
            # Only the words are kept, so they are sorted in place: ten million keys need no further memory.
            words.sort()
            self._words, self._levels = words, levels
        else:
            order = np.lexsort((-levels, words))
            self._words, self._levels = words[order], levels[order]
            self._key_rows = order if columns else None
        again = np.zeros(len(words), dtype=np.bool_)
        again[1:] = self._words[1:] == self._words[:-1]
        if columns and bool(again.any()):
            rows = np.flatnonzero(again)
            again[rows] = self._equal(columns, self._key_row_of(rows), rows - 1)
        if bool(again.any()):
            self._words, self._levels = self._words[~again], self._levels[~again]
            self._key_rows = None if self._key_rows is None else self._key_rows[~again]
        self._longest_run = _longest_run(self._words)

    def _key_row_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions of these words in the key columns."""
        assert self._key_rows is not None
        return self._key_rows[rows]

    def deleted(self, number: int, columns: list[pa.Array]) -> Mask | None:
        """Which rows of a batch of this input are deleted; None when no delete applies to the input."""
        level = self._plan.level_of_input.get(number)
        if level is None:
            return None
        gone = np.zeros(len(columns[0]), dtype=np.bool_)
        words = key_words(self._plan, columns)
        left = np.searchsorted(self._words, words)
        rows = np.arange(len(words))
        if self._plan.is_exact and columns[0].null_count:
            nulls = null_mask(columns[0])
            gone[nulls] = self._null_level >= level
            rows = np.flatnonzero(~nulls)
        for step in range(self._longest_run):
            rows = rows[left[rows] + step < len(self._words)]
            rows = rows[self._words[left[rows] + step] == words[rows]]
            if not len(rows):
                break
            hit = self._levels[left[rows] + step] >= level
            if self._columns:
                hit &= self._equal(columns, rows, left[rows] + step)
            gone[rows[hit]] = True
        return gone

    def _equal(self, columns: list[pa.Array], rows: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> Mask:
        same = np.ones(len(rows), dtype=np.bool_)
        key_rows = self._key_row_of(keys)
        for mine, theirs in zip(self._columns, columns, strict=True):
            same &= _equal_values(theirs.take(pa.array(rows)), mine.take(pa.array(key_rows)))
        return same


def _equal_values(left: pa.Array, right: pa.Array) -> Mask:
    nulls, others = null_mask(left), null_mask(right)
    if is_exact(left.type):
        same = exact_words(left) == exact_words(right)
    else:
        same = np.asarray(pc.fill_null(pc.equal(as_bytes(left), as_bytes(right)), False).to_numpy(zero_copy_only=False))
    return np.asarray((same & ~nulls & ~others) | (nulls & others), dtype=np.bool_)


def _longest_run(words: Words) -> int:
    """The largest number of keys that share one word."""
    again = np.flatnonzero(words[1:] == words[:-1])
    if not len(again):
        return min(1, len(words))
    breaks = np.flatnonzero(np.diff(again) > 1)
    ends = np.concatenate(([-1], breaks, [len(again) - 1]))
    return 1 + int(np.diff(ends).max())


def key_words(plan: KeyPlan, columns: list[pa.Array]) -> Words:
    """One word per row. For a single short column it is the value itself, so that rows in order are looked up in
    order."""
    return exact_words(columns[0]) if plan.is_exact else combine_words([hash_words(column) for column in columns])


def read_key_set(task: BinTask, plan: KeyPlan, part: int, parts: int, pace: Pace) -> KeySet:
    """The keys of all delete files of a plan; of several parts, the keys whose word falls into this one."""
    words, levels, null_level = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)], 0
    columns: list[list[pa.Array]] = [] if plan.is_exact else [[pa.nulls(0, kind)] for kind in plan.kinds]
    for delete, level in plan.level_of_delete.items():
        for keys in _delete_keys(task, plan, delete, pace):
            found = keys
            if plan.is_exact and keys[0].null_count:
                null_level = max(null_level, level)
                found = [keys[0].drop_null()]
            mine = key_words(plan, found)
            if parts > 1:
                chosen = np.flatnonzero(mix_words(mine) % np.uint64(parts) == part)
                mine, found = mine[chosen], [column.take(pa.array(chosen)) for column in found]
            words.append(mine)
            levels.append(np.full(len(mine), level, dtype=np.int32))
            for pieces, column in zip(columns, found, strict=False):
                pieces.append(column)
    joined = [pa.concat_arrays(pieces) for pieces in columns]
    columns.clear()
    return KeySet(plan, np.concatenate(words), np.concatenate(levels), joined, null_level)


def _delete_keys(task: BinTask, plan: KeyPlan, delete: int, pace: Pace) -> Iterator[list[pa.Array]]:
    source = task.deletes[delete]
    with open_parquet(source.path) as file:
        schema = with_mapped_ids(file.schema_arrow, task.name_mapping, source.path)
        field_paths = [find_field(schema, number) for number in plan.ids]
        if not all(field_paths):
            raise damaged(
                source.path, f"it lacks one of its own equality columns, fields {', '.join(map(str, plan.ids))}"
            )
        names = sorted({schema.field(field_path[0]).name for field_path in field_paths})
        for batch in read_batches(file, source.path, names, 1.0, pace):
            tops = [
                batch.column(batch.schema.get_field_index(schema.field(field_path[0]).name))
                for field_path in field_paths
            ]
            yield [
                _in_kind(value_at(top, field_path[1:]), kind)
                for top, field_path, kind in zip(tops, field_paths, plan.kinds, strict=True)
            ]
