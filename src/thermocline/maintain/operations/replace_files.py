"""Commit finished bins: check them against the current head, move deletes that were committed meanwhile, commit once.

A bin whose inputs are all still there is committed whatever else was committed meanwhile, with the files it has
written. A position delete that was added to one of its inputs is moved to the row's new position. A bin that cannot be
committed is left out; the others are committed.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.bins import Bin, CompactionPlan
from thermocline.core.maintenance.files import (
    DeleteIndex,
    LakeSnapshot,
    endangered_deletes,
    is_relative,
    is_same_entry,
    names_file,
    plain_path,
    unneeded_deletes,
)
from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.commit.rewrite_files import (
    CarriedDelete,
    ManifestEntries,
    NewData,
    NewDelete,
    NewFileFooter,
    Rewrite,
)
from thermocline.lake.read.table_files import TableFiles
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.compaction_tasks import format_version, read_seen
from thermocline.maintain.operations.late_vectors import holds_all, positions_in, write_moved
from thermocline.maintain.plans.plan_checks import why_not_whole
from thermocline.parquet.deletes.position_deletes import DeleteTarget, write_deletes
from thermocline.parquet.deletes.row_map import Positions, map_deleted_rows
from thermocline.parquet.footer.dictionary_columns import open_with_dictionaries
from thermocline.parquet.rewrite_task import BinResult, RowMap
from thermocline.runtime.file_io import copy_file, open_location
from thermocline.runtime.retries import back_off
from thermocline.spark.jobs.compact import Staging

STALE = "stale plan: table head changed since planning"
USED_UP = "compaction commit failed after retries"
_IN_ORDER = ("splice", "merge", "reencode")
_COPIED = ("splice", "merge")
"""Kernels whose rows are those of whole inputs, one after the other."""


def staging_of(context: PassContext) -> Staging:
    """The staging area of the pass."""
    registered = context.target.registered
    return Staging(
        dsn=context.dsn,
        pass_id=str(context.pass_id),
        table_id=registered.id if registered is not None else None,
        lake_id=context.target.lake_id,
        slots=context.policy.max_parallel_tasks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A bin that is rewritten and not yet committed."""

    bin: Bin
    result: BinResult

    @property
    def paths(self) -> list[str]:
        return [output.path for output in self.result.outputs]


@dataclass(slots=True, kw_only=True)
class Replacing:
    """The commits of one pass, and their counters."""

    applier: Applier
    plan: CompactionPlan
    files: TableFiles
    staging: Staging
    last: int
    """The snapshot the next commit expects, for policies that do not rebase."""
    picking: Future[ManifestEntries] | None = None
    """The files that leave, being picked while their bins run."""
    measuring: dict[str, Future[NewFileFooter]] = field(default_factory=dict)
    """Files of finished bins, whose footers are being read while other bins run."""
    committed: list[Finished] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    commits: int = 0
    conflicts: int = 0
    """Commits that were overtaken by one which touched a partition of theirs."""
    rebases: int = 0
    """Commits that were overtaken by others, which are only put on top of them."""
    files_reused: int = 0
    deletes_dropped: int = 0
    deletes_moved: int = 0

    @property
    def context(self) -> PassContext:
        return self.applier.context

    def commit(self, finished: Sequence[Finished], dangling: Sequence[LiveDeleteFile] = ()) -> None:
        """Commit the finished bins; on a lost race retry with the same files."""
        left = sorted(finished, key=lambda found: found.bin.files[0].order)  # outputs in the order of their rows
        for attempt in range(max(self.context.policy.max_commit_retries, 1)):
            head = load_table(self.context.spark(), self.context.target.name)
            is_other = head.snapshot_id != self.last and not self.context.policy.rebase
            if is_other or format_version(head) != self.plan.seen.format_version:
                self.refused.append(STALE)
                return
            prepared = self._prepare(head, left, dangling)
            left = list(prepared.finished)
            if prepared.rewrite.is_empty:
                return
            try:
                self._put(head, prepared)
                return
            except LostRace:
                is_overtaken = self._is_overtaken(head, left)
                self.conflicts, self.rebases = self.conflicts + is_overtaken, self.rebases + (not is_overtaken)
                self.files_reused += sum(len(found.paths) for found in left)
                time.sleep(back_off(attempt))
        self.refused.append(USED_UP)

    def _is_overtaken(self, head: LakeHead, finished: Sequence[Finished]) -> bool:
        """Whether commits since that head changed a partition of these bins."""
        before, now = (
            read_seen(self.files, head),
            read_seen(self.files, load_table(self.context.spark(), self.context.target.name)),
        )
        data = {file.path: file.group for file in before.data}.items() ^ {
            file.path: file.group for file in now.data
        }.items()
        known = {delete.key for delete in before.deletes}
        arrived = {(delete.spec_id, delete.partition) for delete in now.deletes if delete.key not in known}
        touched = arrived | {group for _, group in data}
        return any(found.bin.group in touched for found in finished) or any(
            not now.specs[spec_id] for spec_id, _ in arrived
        )

    def _put(self, head: LakeHead, prepared: Prepared) -> None:
        merged = sum(len(found.bin.files) for found in prepared.finished)
        counters = {
            "files_merged": merged,
            "files_written": len(prepared.rewrite.added),
            "deletes_dropped": len(prepared.rewrite.dropped),
        }
        message = (
            f"replaced {merged} data files by {len(prepared.rewrite.added)}, dropped "
            f"{len(prepared.rewrite.dropped)} delete files"
        )
        self.last = self.applier.commit_rewrite(head, prepared.rewrite, counters=counters, message=message)
        self.commits += 1
        self.committed += prepared.finished
        self.deletes_dropped += len(prepared.rewrite.dropped) - len(prepared.moved)
        self.deletes_moved += len(prepared.moved)

    def _prepare(self, head: LakeHead, finished: Sequence[Finished], dangling: Sequence[LiveDeleteFile]) -> Prepared:
        seen = read_seen(self.files, head)
        live, index = {file.path: file for file in seen.data}, DeleteIndex(seen)
        kept: list[Finished] = []
        late: dict[tuple[str, int], LiveDeleteFile] = {}
        for found in finished:
            rows = sum(output.rows for output in found.result.outputs)
            arrived = why_not_whole(found.bin, rows) or _late_deletes(
                found, live, index, self.plan.seen.sequence_number
            )
            if isinstance(arrived, str):
                self.refused.append(arrived)
            else:
                kept.append(found)
                late |= {delete.key: delete for delete in arrived}
        moved = tuple(late.values())
        removed = [live[file.path] for found in kept for file in found.bin.files]
        later = [_as_live_file(found, self.plan.seen.sequence_number, path) for found in kept for path in found.paths]
        unneeded = unneeded_deletes(seen, [file.path for file in removed], later) if kept or dangling else ()
        dropped = {delete.key: delete for delete in (*unneeded, *moved)}
        last = int(head.metadata.get("last-sequence-number", 0))
        endangered = endangered_deletes(seen, [file.path for file in removed], dropped.values(), last) if kept else ()
        rewrite = Rewrite(
            removed=removed,
            added=[new for found in kept for new in _new_data(found, live, self.plan)],
            dropped=tuple(dropped.values()),
            new_deletes=self._move(head, seen, kept, moved),
            carried=[self._carry(head, delete) for delete in endangered],
            sequence_number=self.plan.seen.sequence_number,
            picked=self._picked(),
            measured=self.measuring,
        )
        return Prepared(rewrite=rewrite, finished=tuple(kept), moved=moved)

    def _picked(self) -> ManifestEntries | None:
        """Entries that could not be read ahead are read again by the commit, which reports the error."""
        return self.picking.result() if self.picking is not None and self.picking.exception() is None else None

    def _carry(self, head: LakeHead, delete: LiveDeleteFile) -> CarriedDelete:
        """A copy of a delete file, which Iceberg cannot drop in the commit that adds it."""
        path = f"{head.location.rstrip('/')}/data/{self.staging.pass_id}-{uuid.uuid4().hex[:8]}-carried.{delete.format}"
        self.staging.registrar(self.context.conn)(path)
        copy_file(delete.path, path)
        return CarriedDelete(path=path, original=delete)

    def _move(
        self, head: LakeHead, seen: LakeSnapshot, finished: Sequence[Finished], late: Sequence[LiveDeleteFile]
    ) -> list[NewDelete]:
        """Map deletes that were committed meanwhile to the new positions of their rows."""
        if not late:
            return []
        if any(delete.kind == "vector" for delete in late):
            return self._move_vectors(head, seen, finished, late)
        moves = {plain_path(file.path): (found, maps) for found in finished for file, maps in _maps_of(found)}
        live = {plain_path(file.path): file for file in seen.data}
        new_deletes = []
        for delete in late:
            positions: dict[str, list[Positions]] = {}
            for location, rows in read_positions(delete).items():
                path = (
                    next((file.path for file in seen.data if names_file(location, file.path)), location)
                    if is_relative(location)
                    else location
                )
                if (file := live.get(plain_path(path))) is None or file.sequence_number > delete.sequence_number:
                    continue  # a removed file, or one that was added again after the delete
                if (move := moves.get(plain_path(path))) is not None:
                    for part in map_deleted_rows(move[1], rows):
                        positions.setdefault(move[0].paths[part.output], []).append(part.rows)
                else:
                    positions.setdefault(path, []).append(rows)
            if positions:
                target = DeleteTarget(
                    directory=head.location, stem=f"{self.staging.pass_id}-{uuid.uuid4().hex[:8]}", compression_level=1
                )
                merged = {path: np.unique(np.concatenate(rows)) for path, rows in positions.items()}
                new = write_deletes(target, None, merged, self.staging.registrar(self.context.conn))
                referenced = next(iter(merged)) if len(merged) == 1 else None
                new_deletes.append(
                    NewDelete(
                        path=new.path, size_bytes=new.size_bytes, rows=new.rows, like=delete, referenced_file=referenced
                    )
                )
        return new_deletes

    def _move_vectors(
        self, head: LakeHead, seen: LakeSnapshot, finished: Sequence[Finished], late: Sequence[LiveDeleteFile]
    ) -> list[NewDelete]:
        """The same for a table of version 3, which has one deletion vector for each file."""
        moves = {plain_path(file.path): (found, maps) for found in finished for file, maps in _maps_of(found)}
        positions: dict[str, list[Positions]] = {}
        live, same_partition = {file.path: file for file in seen.data}, dict[str, LiveDataFile]()
        for vector in late:
            found, maps = moves[plain_path(vector.referenced_file or "")]
            for part in map_deleted_rows(maps, positions_in(vector)):
                positions.setdefault(found.paths[part.output], []).append(part.rows)
                same_partition[found.paths[part.output]] = live[found.bin.files[0].path]
        path = f"{head.location.rstrip('/')}/data/{self.staging.pass_id}-{uuid.uuid4().hex[:8]}-deletes.puffin"
        return write_moved(path, positions, same_partition, self.staging.registrar(self.context.conn))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A commit prepared for one head."""

    rewrite: Rewrite
    finished: tuple[Finished, ...]
    moved: tuple[LiveDeleteFile, ...]


def _late_deletes(
    found: Finished, live: dict[str, LiveDataFile], index: DeleteIndex, planned: int
) -> list[LiveDeleteFile] | str:
    """Position deletes on the bin's inputs that its kernel did not apply; or why the bin can no longer be committed."""
    late = []
    for file in found.bin.files:
        if (now := live.get(file.path)) is None or not is_same_entry(now, file):
            return f"source file {file.path} no longer in snapshot; compaction obsolete"
        known = {delete.key for delete in found.bin.deletes.get(file.path, ())}
        applying = index.of(now)
        if known and not known <= {delete.key for delete in applying} | _replaced_keys(found, file, applying):
            return f"deletes on {file.path} were taken back while it was rewritten; its bin is left to the next pass"
        for delete in (delete for delete in applying if delete.key not in known):
            if delete.kind == "equality" and (
                delete.sequence_number > planned or _is_copy(delete, found.bin.deletes.get(file.path, ()))
            ):
                continue  # it applies to the output too, which has the sequence number of the planned snapshot
            if delete.kind == "equality" or found.result.kernel not in _IN_ORDER:
                return f"deletes arrived on {file.path} while it was rewritten; its bin is left to the next pass"
            late.append(delete)
    return late


def _replaced_keys(found: Finished, file: LiveDataFile, now: Sequence[LiveDeleteFile]) -> set[tuple[str, int]]:
    """Keys of deletes of the bin that were replaced by others that delete the same rows: a copy made by an earlier
    commit, or a larger vector."""
    vectors, known = [delete for delete in now if delete.kind == "vector"], found.bin.deletes.get(file.path, ())
    copied = {d.key for d in known if _is_copy(d, now)}
    grown = {d.key for d in known if d.kind == "vector" and any(holds_all(vector, d) for vector in vectors)}
    return copied | grown


def _is_copy(delete: LiveDeleteFile, others: Sequence[LiveDeleteFile]) -> bool:
    """Whether an equality delete is among the others, under any path: a commit may have replaced it by a copy."""
    identity = (delete.kind, delete.sequence_number, delete.equality_ids, delete.record_count)
    return delete.kind == "equality" and identity in {
        (d.kind, d.sequence_number, d.equality_ids, d.record_count) for d in others
    }


def _maps_of(found: Finished) -> list[tuple[LiveDataFile, list[RowMap]]]:
    """Each input of a bin with its row maps."""
    by_path: dict[str, list[RowMap]] = defaultdict(list)
    for part in found.result.row_maps:
        by_path[plain_path(part.input_path)].append(part)
    return [(file, by_path[plain_path(file.path)]) for file in found.bin.files]


def read_positions(delete: LiveDeleteFile) -> dict[str, Positions]:
    """Rows that a file of position deletes names, by data file."""
    filesystem, inner = open_location(delete.path)
    with filesystem.open_input_file(inner) as source:
        table = (
            open_with_dictionaries(source, ["file_path"]).read(["file_path", "pos"], use_threads=False).combine_chunks()
        )
    if not table.num_rows:
        return {}
    paths = table.column("file_path").chunk(0).dictionary_encode()
    codes, rows = paths.indices.to_numpy(zero_copy_only=False), table.column("pos").to_numpy()
    found: dict[str, list[Positions]] = defaultdict(list)
    for code, path in enumerate(paths.dictionary.to_pylist()):  # some writers repeat values in dictionaries
        found[str(path)].append(rows[codes == code])
    return {path: np.concatenate(parts) for path, parts in found.items()}


def _as_live_file(found: Finished, sequence_number: int, path: str) -> LiveDataFile:
    like = found.bin.files[0]
    return LiveDataFile(
        path=path,
        size_bytes=0,
        record_count=0,
        sequence_number=sequence_number,
        spec_id=like.spec_id,
        partition=like.partition,
    )


def _new_data(found: Finished, live: dict[str, LiveDataFile], plan: CompactionPlan) -> list[NewData]:
    order_id = plan.clustering.order_id if plan.clustering is not None and found.result.kernel == "sort" else 0
    if len(found.bin.files) == 1 and found.result.kernel in _IN_ORDER:
        order_id = found.bin.files[0].sort_order_id  # rows of one file, in unchanged order
    copied = [_copied_inputs(found, live, number) for number in range(len(found.result.outputs))]
    return [
        NewData(
            path=output.path,
            size_bytes=output.size_bytes,
            rows=output.rows,
            split_offsets=output.split_offsets,
            like=live[found.bin.files[0].path],
            sort_order_id=order_id,
            nan_counts=output.nan_counts if output.nan_counts is not None else _copied_nan_counts(copied[number]),
            float_ends=output.float_ends,
            copied=copied[number],
        )
        for number, output in enumerate(found.result.outputs)
    ]


def _copied_inputs(found: Finished, live: dict[str, LiveDataFile], output: int) -> tuple[LiveDataFile, ...]:
    """The inputs that were copied undecoded into an output; none where rows were decoded."""
    if found.result.kernel not in _COPIED:
        return ()
    paths = {copied.input_path for copied in found.result.row_maps if copied.output == output}
    return tuple(live[file.path] for file in found.bin.files if file.path in paths)


def _copied_nan_counts(inputs: Sequence[LiveDataFile]) -> Counter[int] | None:
    """The sum of the NaN counts of the inputs copied into an output; None when one of them has none."""
    total: Counter[int] = Counter()
    counted: Set[int] | None = None
    for file in inputs:
        if file.nan_counts is None:
            return None
        total.update(file.nan_counts)  # not by +, which drops zeros
        counted = file.nan_counts.keys() if counted is None else counted & file.nan_counts.keys()
    return Counter({field_id: total[field_id] for field_id in counted or ()})  # a missing count is not zero
