"""What compaction rewrites: files of one spec and one partition, packed into bins.

Pure. A bin is planned only when it leaves fewer files or less debt, so planning again after a pass gives nothing:

- files are taken largest first (in classes of a sixteenth of the target, within a class in the order they were written)
  and each goes into the first bin with room; where bins of neighbours in the order of writing leave hardly more files,
  those are taken, so that a file's range of keys grows no faster than its rows;
- a file is not rewritten to absorb less than half its size, so no file is written again and again on its way to the
  target;
- what the outputs would be packed into afterwards is packed together at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from thermocline.core.lake_file import Ends, LiveDataFile, LiveDeleteFile, Values
from thermocline.core.maintenance.clustering import Clustering
from thermocline.core.maintenance.debt import is_in_debt
from thermocline.core.maintenance.files import DeleteIndex, LakeSnapshot, unneeded_deletes
from thermocline.core.policy.partition_scope import (
    NOT_SEALED,
    is_in_where,
    is_sealed,
    parse_where,
    why_not_where,
    window_end,
)
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import BadWhere

NOTHING = "no files eligible for compaction"
DELETES_NOT_APPLIED = "compaction skipped: delete manifests present and apply_deletes is disabled"
CLASSES = 16
RECLUSTER_DEPTH = 4.0
"""A partition in order is merged anew when a look-up would open more files than this."""
_MAX_DETAILS = 40
_WORTH = 0.5

BinKernel = Literal["splice", "reencode", "sort", "zorder", "hilbert"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bin:
    """Files to be rewritten together, in the order they were written in, with the deletes of each."""

    number: int
    group: tuple[int, Values]
    files: tuple[LiveDataFile, ...]
    deletes: Mapping[str, tuple[LiveDeleteFile, ...]]
    kernel: BinKernel
    target_bytes: int

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def in_debt(self) -> int:
        return sum(1 for file in self.files if self.deletes.get(file.path))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompactionPlan:
    """What a pass rewrites, which delete files nothing needs, and why the rest stays."""

    seen: LakeSnapshot
    bins: tuple[Bin, ...] = ()
    dangling: tuple[LiveDeleteFile, ...] = ()
    clustering: Clustering | None = None
    sentence: str = NOTHING
    """Why there is nothing to do, when there is nothing to do."""
    details: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.bins and not self.dangling


@dataclass(slots=True)
class _Notes:
    """Reasons, counted when there are too many to list."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(line)

    def render(self) -> tuple[str, ...]:
        more = len(self.lines) - _MAX_DETAILS
        return (*self.lines[:_MAX_DETAILS], f"and {more} more") if more > 0 else tuple(self.lines)


def plan_compaction(
    seen: LakeSnapshot, policy: Policy, now: datetime, clustering: Clustering | None = None
) -> CompactionPlan:
    """Bins of the table, with the reasons for what is left alone."""
    if seen.deletes and not policy.apply_deletes:
        count = f"{len(seen.deletes)} delete files"
        return CompactionPlan(seen=seen, sentence=DELETES_NOT_APPLIED, details=(count,))
    notes = _Notes()
    work = _Planning(seen, policy, clustering, notes)
    groups = _groups_in_scope(seen, policy, now, notes)
    found = work.plan_clustered(groups) if clustering is not None else work.plan_packed(groups)
    dangling = unneeded_deletes(seen) if policy.delete_compaction_enabled and not policy.where else ()
    bins = tuple(_numbered(number, made) for number, made in enumerate(sorted(found, key=_gain)))
    return CompactionPlan(
        seen=seen,
        bins=bins,
        dangling=dangling,
        clustering=clustering,
        sentence=work.sentence,
        details=_render_details(notes, seen, policy),
    )


def _render_details(notes: _Notes, seen: LakeSnapshot, policy: Policy) -> tuple[str, ...]:
    large = sum(1 for file in seen.data if 0 < policy.too_large_bytes < file.size_bytes)
    return (
        *notes.render(),
        *([f"{large} files are too large (above {policy.too_large_bytes:,} bytes)"] if large else []),
    )


def _gain(made: Bin) -> tuple[float, str]:
    """Files saved and debt removed per byte, most first."""
    return -(len(made.files) + made.in_debt) / max(made.size_bytes, 1), made.files[0].path


def _numbered(number: int, made: Bin) -> Bin:
    return Bin(
        number=number,
        group=made.group,
        files=made.files,
        deletes=made.deletes,
        kernel=made.kernel,
        target_bytes=made.target_bytes,
    )


def _groups_in_scope(
    seen: LakeSnapshot, policy: Policy, now: datetime, notes: _Notes
) -> dict[tuple[int, Values], list[LiveDataFile]]:
    """The files of each partition that the policy's `where` and sealed windows let in."""
    conditions = parse_where(policy.where)
    if reason := why_not_where(seen, conditions):
        raise BadWhere(reason)
    groups: dict[tuple[int, Values], list[LiveDataFile]] = defaultdict(list)
    for file in seen.data:
        groups[file.group].append(file)
    if policy.sealed_after_ms >= 0 and groups and not any(window_end(seen, group) for group in groups):
        notes.add(
            "no partition is a window of time, so none waits to be sealed; two compactions never work on one "
            "partition at once"
        )
    kept = {}
    for group, files in groups.items():
        newest = max((file.added_ms for file in files if file.added_ms is not None), default=None)
        if not is_in_where(seen, group, conditions):
            continue
        if not is_sealed(seen, group, newest, policy.sealed_after_ms, now):
            notes.add(f"{render_group(seen, group)}: {NOT_SEALED}")
            continue
        kept[group] = files
    return kept


def render_group(seen: LakeSnapshot, group: tuple[int, Values]) -> str:
    """A partition as people know it: `region=us`, and its spec when there are several."""
    texts = ", ".join(f"{name}={text}" for name, text in seen.partition_texts.get(group, {}).items())
    return (texts or "the table") + (f" (spec {group[0]})" if len(seen.specs) > 1 else "")


class _Planning:
    """One plan under way."""

    def __init__(self, seen: LakeSnapshot, policy: Policy, clustering: Clustering | None, notes: _Notes) -> None:
        self.sentence = NOTHING
        self._seen, self._policy, self._clustering, self._notes = seen, policy, clustering, notes
        index = DeleteIndex(seen)
        self._deletes = {file.path: index.of(file) for file in seen.data} if seen.deletes else {}

    @property
    def _limit(self) -> int:
        return self._policy.small_file_threshold_bytes or self._policy.rewrite_target_bytes

    def _of(self, file: LiveDataFile) -> tuple[LiveDeleteFile, ...]:
        return self._deletes.get(file.path, ())

    def _is_debt(self, file: LiveDataFile) -> bool:
        return self._policy.delete_compaction_enabled and is_in_debt(file, self._of(file), self._policy)

    def _is_small(self, file: LiveDataFile) -> bool:
        """Small enough to be merged; one under deletes only where deletes may be compacted too."""
        if not self._policy.rewrite_enabled or (self._of(file) and not self._policy.delete_compaction_enabled):
            return False
        return file.size_bytes < self._limit

    def _readable(self, group: tuple[int, Values], files: Sequence[LiveDataFile]) -> list[LiveDataFile]:
        odd = [file for file in files if file.format != "parquet"]
        if odd:
            self._notes.add(
                f"{render_group(self._seen, group)}: {len(odd)} files are {odd[0].format.upper()}, which is "
                "not rewritten"
            )
        return [file for file in files if file.format == "parquet"]

    def plan_packed(self, groups: Mapping[tuple[int, Values], Sequence[LiveDataFile]]) -> list[Bin]:
        """Bin-pack every partition."""
        readable = {group: self._readable(group, files) for group, files in groups.items()}
        small = {group: [file for file in files if self._is_small(file)] for group, files in readable.items()}
        enough = self._enough(small)
        made: list[Bin] = []
        for group, files in readable.items():
            debt = [file for file in files if self._is_debt(file)]
            owed = {file.path for file in debt}
            clean = [file for file in small[group] if file.path not in owed] if group in enough else []
            made += [self._bin(group, chosen) for chosen in self._pack(group, debt, clean)]
        return made

    def _enough(self, small: Mapping[tuple[int, Values], Sequence[LiveDataFile]]) -> set[tuple[int, Values]]:
        """The partitions with enough small files, and the reason why others have not."""
        least, policy = self._policy.rewrite_min_input_files, self._policy
        counts = {group: len(files) for group, files in small.items()}
        total, largest = sum(counts.values()), max(counts.values(), default=0)
        if policy.rewrite_enabled and not total:
            smallest = min((file.size_bytes for file in self._seen.data), default=0)
            self._notes.add(f"no file is below {self._limit:,} bytes; smallest file: {smallest:,} bytes")
        elif policy.rewrite_enabled and policy.min_input_scope == "table" and total < least:
            self._notes.add(f"small files in the table: {total}, needs {least}")
        elif policy.rewrite_enabled and policy.min_input_scope == "partition" and largest < least:
            self._notes.add(f"largest group: {largest} files, needs {least}")
        if policy.min_input_scope == "table":
            return set(small) if total >= least else set()
        return {group for group, count in counts.items() if count >= max(least, 2)}

    def _pack(
        self, group: tuple[int, Values], debt: Sequence[LiveDataFile], clean: Sequence[LiveDataFile]
    ) -> list[list[LiveDataFile]]:
        """Bins of one partition, such that planning anew with their outputs in place would find nothing."""
        least = 2 if self._policy.min_input_scope == "table" else max(2, self._policy.rewrite_min_input_files)
        inputs = {file.path: [file] for file in (*debt, *clean)}
        left, owed, done = [*debt, *clean], {file.path for file in debt}, []
        while True:
            bins = self._bins_of(left, owed, least)
            chosen = [files for files in bins if len(files) >= least or any(file.path in owed for file in files)]
            if not chosen:
                break
            outputs, gone = [], set()
            for files in chosen:
                owing = [file for file in files if file.path in owed]
                merged = files if len(files) >= least else owing
                gone |= {file.path for file in merged}
                together = [file for part in merged for file in inputs.pop(part.path)]
                if owing or _bytes(together) >= self._limit:
                    # Its output size cannot be estimated, or a later pass would not compact it again.
                    done.append(together)
                else:
                    outputs.append(self._output(together))
                    inputs[outputs[-1].path] = together
            left = [*(file for file in left if file.path not in gone), *outputs]
        for files in bins:
            if 1 < len(files) < least and not any(len(inputs[file.path]) > 1 for file in files):
                self._notes.add(f"{render_group(self._seen, group)}: {len(files)} files left over, needs {least}")
        return [*done, *(files for files in inputs.values() if len(files) > 1)]

    def _output(self, files: Sequence[LiveDataFile]) -> LiveDataFile:
        """What a bin becomes, as the next plan would see it: younger than what was left, in the order of the oldest
        input."""
        first = min(files, key=lambda file: (file.order, file.path))
        order = len(self._seen.data) + first.order
        return replace(first, path=f"output of {first.path}", size_bytes=_bytes(files), order=order)

    def _bins_of(self, files: Sequence[LiveDataFile], owed: set[str], least: int) -> list[list[LiveDataFile]]:
        """In the order of writing where files become half as many and hardly more than largest first would leave."""
        in_order, by_size = (self._settled(files, owed, packer) for packer in (pack_in_order, pack))

        def files_left(bins: Sequence[Sequence[LiveDataFile]]) -> int:
            return sum(1 if len(made) >= least else len(made) for made in bins)

        most, fewest = files_left(in_order), files_left(by_size)
        is_worth = most <= fewest or (2 * most <= len(files) and most <= fewest + max(fewest // 8, 1))
        return in_order if is_worth else by_size

    def _settled(
        self,
        files: Sequence[LiveDataFile],
        owed: set[str],
        packer: Callable[[Sequence[LiveDataFile], int], list[list[LiveDataFile]]],
    ) -> list[list[LiveDataFile]]:
        """Bins without clean files that outweigh the rest of theirs; such a file has a bin of its own."""
        left, alone = list(files), list[LiveDataFile]()
        while True:
            bins = packer(left, self._policy.rewrite_target_bytes)
            heavy = [file for made in bins if (file := _outweighing(made, owed)) is not None]
            if not heavy:
                return [*bins, *([file] for file in alone)]
            alone += heavy
            gone = {file.path for file in heavy}
            left = [file for file in left if file.path not in gone]

    def plan_clustered(self, groups: Mapping[tuple[int, Values], Sequence[LiveDataFile]]) -> list[Bin]:
        """One bin per partition, of the files that are out of order."""
        readable = {group: self._readable(group, files) for group, files in groups.items()}
        small = {
            group: [f for f in files if self._is_small(f) and not self._ordered(f)] for group, files in readable.items()
        }
        enough = self._enough(small)
        made = []
        for group, files in readable.items():
            if chosen := self._out_of_order(group, files, group in enough):
                made.append(self._bin(group, chosen))
        cap = self._policy.sort_max_input_bytes
        within = [found for found in made if not cap or found.size_bytes <= cap]
        if made and not within:
            self.sentence = f"no files eligible for sorted compaction within {cap >> 20} MB sort input cap"
            self._notes.add(f"smallest bin: {min(found.size_bytes for found in made):,} bytes, cap {cap:,} bytes")
        return within

    def _ordered(self, file: LiveDataFile) -> bool:
        return self._clustering is not None and self._clustering.holds(file)

    def _out_of_order(
        self, group: tuple[int, Values], files: Sequence[LiveDataFile], enough: bool
    ) -> list[LiveDataFile]:
        """What to put in order: files nobody ordered when they are many, overlap or are in debt; all when look-ups open
        too many.

        A partition whose files all come from passes of ours is in order as it was decided to be: only what others add
        can change that.
        """
        order = self._clustering
        assert order is not None
        loose = [file for file in files if not order.holds(file)]
        debt = [file for file in files if self._is_debt(file)]
        depth, is_otherwise = order.depth(files), any(order.is_otherwise(file) for file in loose)
        if self._policy.rewrite_enabled and (len(files) > 1 or is_otherwise):
            if _bytes(loose) * 2 >= _bytes(files) and loose and (depth > 1 or enough or is_otherwise):
                return list(files)
            alone = len(loose) > 1 and (enough or order.depth(loose) > 1)
            chosen = [*loose, *(file for file in debt if file not in loose)] if alone else debt
            is_ours = all(order.wrote(file) for file in files)
            if not is_ours and order.depth(self._after(files, chosen) if chosen else files) > RECLUSTER_DEPTH:
                return list(files)
            if alone:
                return chosen
        if not debt:
            note = f"overlap depth {depth:.1f}, reordered above {RECLUSTER_DEPTH:.1f}; {len(loose)} files out of order"
            self._notes.add(f"{render_group(self._seen, group)}: {note}")
        return debt

    def _after(self, files: Sequence[LiveDataFile], chosen: Sequence[LiveDataFile]) -> list[LiveDataFile]:
        """The partition as the next plan would see it, with one output in place of the chosen files."""
        assert self._clustering is not None
        gone = {file.path for file in chosen}
        ends = {
            field_id: _hull([file.ends.get(field_id, (None, None)) for file in chosen]) for field_id in chosen[0].ends
        }
        output = replace(chosen[0], path=f"{self._clustering.output_prefix('output', 0)}-0.parquet", ends=ends)
        return [*(file for file in files if file.path not in gone), output]

    def _bin(self, group: tuple[int, Values], files: Sequence[LiveDataFile]) -> Bin:
        ordered = tuple(sorted(files, key=lambda file: (file.order, file.path)))
        deletes = {file.path: found for file in ordered if (found := self._of(file))}
        kernel: BinKernel = (
            self._clustering.kind if self._clustering is not None else "reencode" if deletes else "splice"
        )
        return Bin(
            number=0,
            group=group,
            files=ordered,
            deletes=deletes,
            kernel=kernel,
            target_bytes=plan_target(_bytes(files), self._policy),
        )


def _hull(found: Sequence[Ends]) -> Ends:
    """The range that holds all of these; unknown as soon as one is."""
    if any(None in ends for ends in found):
        return (None, None)
    return min(low for low, _ in found), max(high for _, high in found)


def _bytes(files: Sequence[LiveDataFile]) -> int:
    return sum(file.size_bytes for file in files)


def plan_target(size_bytes: int, policy: Policy) -> int:
    """Where outputs are cut: evenly, so that none is a small remainder; a bin within the target gives one file."""
    target = policy.rewrite_target_bytes
    if size_bytes <= target:
        return 2 * target
    return int(size_bytes / round(size_bytes / target) * 1.02) + 1


def pack(files: Sequence[LiveDataFile], target_bytes: int) -> list[list[LiveDataFile]]:
    """First fit, largest class first; a file at or above the target has a bin of its own."""
    width = max(1, target_bytes // CLASSES)
    ordered = sorted(files, key=lambda file: (-(file.size_bytes // width), file.order, file.path))
    smallest = min((file.size_bytes for file in files), default=0)
    bins: list[list[LiveDataFile]] = []
    room: list[int] = []
    open_bins: list[int] = []
    for file in ordered:
        at = next((number for number in open_bins if room[number] >= file.size_bytes), None)
        if at is None:
            at = len(bins)
            bins.append([])
            room.append(target_bytes)
            open_bins.append(at)
        bins[at].append(file)
        room[at] -= file.size_bytes
        if room[at] < smallest:
            open_bins.remove(at)
    return bins


def pack_in_order(files: Sequence[LiveDataFile], target_bytes: int) -> list[list[LiveDataFile]]:
    """Neighbours in the order of writing share a bin until it is full; a file at or above the target has a bin of its
    own."""
    bins: list[list[LiveDataFile]] = []
    alone: list[list[LiveDataFile]] = []
    room = 0
    for file in sorted(files, key=lambda file: (file.order, file.path)):
        if file.size_bytes >= target_bytes:
            alone.append([file])
        elif bins and file.size_bytes <= room:
            bins[-1].append(file)
            room -= file.size_bytes
        else:
            bins.append([file])
            room = target_bytes - file.size_bytes
    return [*bins, *alone]


def _outweighing(files: Sequence[LiveDataFile], owed: set[str]) -> LiveDataFile | None:
    """The clean file of a bin that is more than twice the rest: rewriting it would gain too little."""
    largest = max(files, key=lambda file: file.size_bytes)
    rest = _bytes(files) - largest.size_bytes
    return largest if len(files) > 1 and largest.path not in owed and rest < largest.size_bytes * _WORTH else None
