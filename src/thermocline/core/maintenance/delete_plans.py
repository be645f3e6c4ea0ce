"""What becomes of delete files themselves: position deletes merged, equality deletes turned into position deletes.

Pure. A group of position deletes is rewritten only when that leaves fewer files, so rewriting again does nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile, Values
from thermocline.core.maintenance.bins import render_group
from thermocline.core.maintenance.files import DeleteIndex, LakeSnapshot, plain_path
from thermocline.core.policy.policy import Policy

NO_POSITION_DELETES = "no position delete files eligible for rewrite"
NO_EQUALITY_DELETES = "no equality delete files to convert"
VECTORS_SINCE = 3
"""The format version whose position deletes are deletion vectors."""
_MOST_ROWS = 8_000_000
"""Positions that one task holds at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeleteBin:
    """Delete files to be written anew, and the data files they may name, each with the deletes that apply to it."""

    number: int
    group: tuple[int, Values]
    deletes: tuple[LiveDeleteFile, ...]
    data: tuple[LiveDataFile, ...]
    applies: Mapping[str, tuple[LiveDeleteFile, ...]]
    files_at_most: int = 1
    """Up to so many data files, each gets a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeletesPlan:
    seen: LakeSnapshot
    bins: tuple[DeleteBin, ...] = ()
    groups: int = 0
    skipped: int = 0
    details: tuple[str, ...] = ()


def plan_merges(seen: LakeSnapshot, policy: Policy) -> DeletesPlan:
    """Small files of position deletes, merged per partition."""
    small: dict[tuple[int, Values], list[LiveDeleteFile]] = defaultdict(list)
    for delete in seen.deletes:
        if delete.kind == "position" and delete.format == "parquet" and delete.size_bytes < policy.delete_target_bytes:
            small[delete.spec_id, delete.partition].append(delete)
    index = DeleteIndex(seen)
    of_group: dict[tuple[int, Values], list[LiveDataFile]] = defaultdict(list)
    for file in seen.data:
        of_group[file.group].append(file)
    bins: list[DeleteBin] = []
    groups, skipped, details = 0, 0, []
    for group, deletes in small.items():
        made = [
            found
            for part in _parts(deletes, policy)
            if (found := _merge(part, of_group[group], index, policy, group)) is not None
        ]
        if made:
            groups += 1
            bins += made
        else:
            skipped += 1
            details.append(
                f"{render_group(seen, group)}: {len(deletes)} small position delete files, needs "
                f"{policy.delete_min_input_files}"
            )
    return DeletesPlan(seen=seen, bins=_numbered(bins), groups=groups, skipped=skipped, details=tuple(details))


def _parts(deletes: Sequence[LiveDeleteFile], policy: Policy) -> Iterator[list[LiveDeleteFile]]:
    """Files in runs that one task can hold; those of one data file next to each other."""
    part: list[LiveDeleteFile] = []
    for delete in sorted(
        deletes, key=lambda found: (found.referenced_file or found.lowest_path or "", found.sequence_number, found.path)
    ):
        rows = sum(found.record_count for found in part) + delete.record_count
        size = sum(found.size_bytes for found in part) + delete.size_bytes
        if part and (rows > _MOST_ROWS or size > policy.delete_max_group_bytes):
            yield part
            part = []
        part.append(delete)
    if part:
        yield part


def _merge(
    deletes: Sequence[LiveDeleteFile],
    data: Sequence[LiveDataFile],
    index: DeleteIndex,
    policy: Policy,
    group: tuple[int, Values],
) -> DeleteBin | None:
    """The merge of these files, when it leaves fewer."""
    wanted = {delete.key for delete in deletes}
    applies = {file.path: here for file in data if (here := tuple(d for d in index.of(file) if d.key in wanted))}
    alone = len(applies) <= policy.delete_max_output_files and len(applies) < len(deletes)
    is_done = len(applies) == len(deletes) and all(delete.referenced_file is not None for delete in deletes)
    if len(deletes) < max(policy.delete_min_input_files, 2) or is_done:
        return None
    named = tuple(file for file in data if file.path in applies)
    files_at_most = policy.delete_max_output_files if alone else 1
    return DeleteBin(
        number=0, group=group, deletes=tuple(deletes), data=named, applies=applies, files_at_most=files_at_most
    )


def plan_conversions(seen: LakeSnapshot) -> DeletesPlan:
    """Every equality delete, looked for in each data file it may hide rows of.

    From format version 3 on a data file has one deletion vector, so what is deleted in it by position already comes
    along.
    """
    equality = {delete.key for delete in seen.deletes if delete.kind == "equality"}
    if not equality:
        return DeletesPlan(seen=seen)
    index, of_group = DeleteIndex(seen), defaultdict[tuple[int, Values], list[LiveDataFile]](list)
    applies = {}
    for file in seen.data:
        found = index.of(file)
        if here := tuple(delete for delete in found if delete.key in equality):
            applies[file.path] = here if seen.format_version < VECTORS_SINCE else found
            of_group[file.group].append(file)
    bins = [
        DeleteBin(
            number=0,
            group=group,
            deletes=tuple({delete.key: delete for file in part for delete in applies[file.path]}.values()),
            data=tuple(part),
            applies={file.path: applies[file.path] for file in part},
        )
        for group, files in of_group.items()
        for part in _data_parts(files)
    ]
    return DeletesPlan(seen=seen, bins=_numbered(bins), groups=len(of_group))


def _data_parts(files: Sequence[LiveDataFile]) -> Iterator[list[LiveDataFile]]:
    part: list[LiveDataFile] = []
    for file in files:
        if part and sum(found.record_count for found in part) + file.record_count > _MOST_ROWS:
            yield part
            part = []
        part.append(file)
    if part:
        yield part


def _numbered(bins: Sequence[DeleteBin]) -> tuple[DeleteBin, ...]:
    return tuple(replace(made, number=number) for number, made in enumerate(bins))


def still_applying(seen: LakeSnapshot, deletes: Sequence[LiveDeleteFile], converted: set[str]) -> set[tuple[str, int]]:
    """Which of these deletes may hide rows of data files that were not looked into, and so have to stay."""
    index, wanted = DeleteIndex(seen), {delete.key for delete in deletes}
    looked = {plain_path(path) for path in converted}
    return {
        delete.key
        for file in seen.data
        if plain_path(file.path) not in looked
        for delete in index.of(file)
        if delete.key in wanted
    }
