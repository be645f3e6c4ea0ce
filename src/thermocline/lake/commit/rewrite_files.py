"""Replace files of a lake table by others with the same rows: Iceberg's rewrite, committed on exactly the head that was
read.

The removed files are passed to Iceberg as the entries of its own manifests, never by path: Iceberg deletes a file that
is removed by path. They are selected inside the JVM, because one py4j call per file would cost more than the commit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.metrics_modes import MetricsMode, current_schema, plan_metrics_modes
from thermocline.errors import CommitInconsistent
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, check_rows, commit_snapshot, find_op
from thermocline.lake.commit.java_metrics import java_metrics, read_bounds
from thermocline.lake.commit.java_values import (
    filter_in_jvm,
    index_by,
    is_in_set,
    java_class,
    list_of_longs,
    string_getter,
)
from thermocline.parquet.footer.file_metrics import (
    CopiedInput,
    FooterFacts,
    KnownEnds,
    fields_without_bounds,
    merge_input_bounds,
    plan_metrics,
    position_delete_metrics,
    read_footer_facts,
)

_FOOTERS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """A data file to add, in the spec and partition of a file that is in the table."""

    path: str
    size_bytes: int
    rows: int
    split_offsets: tuple[int, ...]
    like: LiveDataFile
    sort_order_id: int = 0
    nan_counts: Mapping[int, int] | None = None
    """NaN counts of float columns, which footers do not have; None where they are not known."""
    float_ends: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Bounds of float columns, where rows were encoded."""
    copied: tuple[LiveDataFile, ...] = ()
    """The files whose row groups were copied into this one: all of their rows and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelete:
    """A position delete file to add; `referenced_file` when it names only one data file. With a `length` it is a
    deletion vector."""

    path: str
    size_bytes: int
    rows: int
    like: LiveDataFile | LiveDeleteFile
    referenced_file: str | None = None
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedDelete:
    """A copy of a delete file at another path, which replaces the original and keeps its sequence number."""

    path: str
    original: LiveDeleteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntries:
    """The table's own entries of data files, as a Java list, read ahead of the commit. Manifests are immutable, so
    entries stay valid."""

    files: frozenset[tuple[str, str]]
    """Manifest and path of each."""
    entries: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFileFooter:
    """The footer of a new file by the columns of a schema, read ahead of the commit."""

    schema_id: int
    facts: FooterFacts = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The files that one commit removes and adds. New data files get `sequence_number`, so that later equality deletes
    apply to them."""

    removed: Sequence[LiveDataFile] = ()
    added: Sequence[NewData] = ()
    dropped: Sequence[LiveDeleteFile] = ()
    new_deletes: Sequence[NewDelete] = ()
    carried: Sequence[CarriedDelete] = ()
    sequence_number: int | None = None
    picked: ManifestEntries | None = None
    """Entries of data files, read ahead of the commit."""
    measured: Mapping[str, Future[NewFileFooter]] = field(default_factory=dict)
    """Footers of new data files by path, read ahead of the commit."""

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.dropped)


def rewrite_files(head: LakeHead, rewrite: Rewrite, stamp: OpStamp) -> int:
    """Replace files on exactly this head; returns the new snapshot's id."""
    if (done := find_op(head, stamp.op_id)) is not None:
        return done
    jvm: Any = head.spark._jvm
    likes: list[LiveDataFile | LiveDeleteFile] = [
        *(file.like for file in rewrite.added),
        *(file.like for file in rewrite.new_deletes),
    ]
    data = _picked_or_pick(
        head, [*rewrite.removed, *(like for like in likes if isinstance(like, LiveDataFile))], rewrite.picked
    )
    leaving = [*rewrite.dropped, *(copy.original for copy in rewrite.carried)]
    deletes = _pick(head, [*leaving, *(like for like in likes if isinstance(like, LiveDeleteFile))], deletes=True)
    gone = _among(head, data, {file.path for file in rewrite.removed})
    dropped = _among_deletes(head, deletes, leaving)
    found = _by_location(head, data)
    by_path = {like.path: _partition_of(found, deletes, like) for like in {like.path: like for like in likes}.values()}
    added, new_deletes = (java_class(jvm, "java.util.HashSet")() for _ in range(2))
    adding = _Adding(
        head=head, modes=plan_metrics_modes(head.metadata), found=found, partitions=by_path, begun=rewrite.measured
    )
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="footers") as pool:
        for made in pool.map(adding.data_file, rewrite.added):
            added.add(made)
    for delete in rewrite.new_deletes:
        new_deletes.add(_delete_file(head, delete, by_path[delete.like.path]))
    update = head.table.newRewrite().rewriteFiles(gone, dropped, added, new_deletes)
    update.validateFromSnapshot(head.snapshot_id)
    for copy in rewrite.carried:
        update.addFile(_carried_file(head, copy, deletes), copy.original.sequence_number)
    if rewrite.sequence_number is not None and rewrite.added and head.metadata.get("format-version", 1) > 1:
        update.dataSequenceNumber(rewrite.sequence_number)
    for key, value in (carried_summary(head) | stamp.summary()).items():
        update.set(key, value)
    return commit_snapshot(head, update, stamp.op_id)


_ITS_OWN = re.compile(
    r"operation|(added|deleted|removed|total|changed|replaced)-.*|partitions?[.-].*|manifests-.*|entries-processed|replace-partitions"
    r"|source-snapshot-id|(published-)?wap[.-].*|spark\.app\.id|app-(id|name)|engine-(name|version)|iceberg-version|thermocline\..*"
)
"""Keys of a snapshot's summary that describe that commit alone."""


def carried_summary(head: LakeHead) -> dict[str, str]:
    """Properties that other writers stored in the head's summary, such as stream offsets; a rewrite repeats them."""
    summaries = [
        found.get("summary", {})
        for found in head.metadata.get("snapshots", ())
        if found["snapshot-id"] == head.snapshot_id
    ]
    return {key: value for summary in summaries for key, value in summary.items() if not _ITS_OWN.fullmatch(key)}


def read_data_entries(head: LakeHead, files: Sequence[LiveDataFile]) -> ManifestEntries:
    """Read the entries that a rewrite will need."""
    return ManifestEntries(
        files=frozenset((file.manifest, file.path) for file in files), entries=_pick(head, files, deletes=False)
    )


def _picked_or_pick(head: LakeHead, files: Sequence[LiveDataFile], picked: ManifestEntries | None) -> Any:
    if picked is not None and all((file.manifest, file.path) in picked.files for file in files):
        return picked.entries
    return _pick(head, files, deletes=False)


def _pick(head: LakeHead, files: Iterable[LiveDataFile | LiveDeleteFile], *, deletes: bool) -> Any:
    """The table's own entries of these files, as a Java collection."""
    jvm: Any = head.spark._jvm
    wanted: dict[str, set[str]] = defaultdict(set)
    for file in files:
        wanted[file.manifest].add(file.path)
    found = java_class(jvm, "java.util.ArrayList")()
    if not wanted:
        return found
    snapshot, io, specs, location = (
        head.table.snapshot(head.snapshot_id),
        head.table.io(),
        head.table.specs(),
        _location_function(head),
    )
    manifest_files = java_class(jvm, "org.apache.iceberg.ManifestFiles")
    manifests = snapshot.deleteManifests(io) if deletes else snapshot.dataManifests(io)
    for at in range(manifests.size()):  # by index: the end of a Java iteration is an exception, which costs sixty calls
        manifest = manifests.get(at)
        if not (paths := wanted.get(str(manifest.path()))):
            continue
        entries = (manifest_files.readDeleteManifest if deletes else manifest_files.read)(manifest, io, specs)
        try:
            found.addAll(filter_in_jvm(jvm, entries, is_in_set(jvm, paths, location)))
        finally:
            entries.close()
    return found


def _location_function(head: LakeHead) -> Any:
    """A Java function from a file to its location."""
    return string_getter(
        head.spark._jvm, head.table.getClass().getClassLoader(), "org.apache.iceberg.ContentFile", "location"
    )


def _among(head: LakeHead, files: Any, paths: set[str]) -> Any:
    """The files with these paths as a Java set, selected in the JVM."""
    chosen = filter_in_jvm(head.spark._jvm, files, is_in_set(head.spark._jvm, paths, _location_function(head)))
    if chosen.size() != len(paths):
        raise CommitInconsistent(f"{len(paths) - chosen.size()} files to be replaced are not in the lake table.")
    return chosen


def _by_location(head: LakeHead, files: Any) -> Any:
    """A Java map from location to file, for look-ups of single files."""
    return index_by(head.spark._jvm, files, _location_function(head))


def _among_deletes(head: LakeHead, files: Any, wanted: Sequence[LiveDeleteFile]) -> Any:
    keys = {delete.key for delete in wanted}
    if all(delete.kind != "vector" for delete in wanted):
        return _among(head, files, {delete.path for delete in wanted})
    chosen = java_class(head.spark._jvm, "java.util.HashSet")()
    for file in files:
        if (str(file.location()), int(file.contentOffset() or 0)) in keys:
            chosen.add(file)
    if chosen.size() != len(keys):
        raise CommitInconsistent(f"{len(keys) - chosen.size()} delete files to be dropped are not in the lake table.")
    return chosen


def _partition_of(data: Any, deletes: Any, like: LiveDataFile | LiveDeleteFile) -> Any:
    """The partition of a file as an Iceberg object."""
    if isinstance(like, LiveDataFile):
        return data.get(like.path).partition()
    return next(file.partition() for file in deletes if str(file.location()) == like.path)


def read_new_file_footer(head: LakeHead, path: str) -> NewFileFooter:
    """Read the footer of a new data file."""
    return NewFileFooter(
        schema_id=head.metadata["current-schema-id"], facts=read_footer_facts(path, current_schema(head.metadata))
    )


def _measured_or_measure(head: LakeHead, file: NewData, begun: Mapping[str, Future[NewFileFooter]]) -> FooterFacts:
    found = begun.get(file.path)
    if (
        found is not None
        and found.exception() is None
        and found.result().schema_id == head.metadata["current-schema-id"]
    ):
        return found.result().facts
    return read_new_file_footer(head, file.path).facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adding:
    """What every new data file of a commit needs; `found` are the table's own entries by location."""

    head: LakeHead
    modes: Mapping[int, MetricsMode]
    found: Any
    partitions: Mapping[str, Any]
    begun: Mapping[str, Future[NewFileFooter]]

    def data_file(self, file: NewData) -> Any:
        jvm: Any = self.head.spark._jvm
        facts = _measured_or_measure(self.head, file, self.begun)
        check_rows(file.path, facts, file.rows)
        known = {**self._copied_ends(file, facts), **file.float_ends}
        metrics = java_metrics(jvm, plan_metrics(facts, self.modes, file.nan_counts, known))
        spec = self.head.table.specs().get(file.like.spec_id)
        builder = (
            java_class(jvm, "org.apache.iceberg.DataFiles")
            .builder(spec)
            .withPath(file.path)
            .withFileSizeInBytes(file.size_bytes)
        )
        builder = (
            builder.withFormat("parquet").withMetrics(metrics).withSplitOffsets(list_of_longs(jvm, file.split_offsets))
        )
        if spec.isPartitioned():
            builder = builder.withPartition(self.partitions[file.like.path])
        if file.sort_order_id:
            builder = builder.withSortOrder(self.head.table.sortOrders().get(file.sort_order_id))
        return builder.build()

    def _copied_ends(self, file: NewData, facts: FooterFacts) -> dict[int, KnownEnds]:
        """Bounds that the inputs of a copy know for columns whose copied statistics are incomplete. Few files have any,
        so it may take time."""
        if not file.copied or not (field_ids := fields_without_bounds(facts)):
            return {}
        inputs, schema = [], current_schema(self.head.metadata)
        for copied in file.copied:
            lower, upper = read_bounds(
                self.head.spark._jvm, self.found.get(copied.path), self.head.table.specs().get(copied.spec_id)
            )
            inputs.append(CopiedInput(facts=read_footer_facts(copied.path, schema), lower=lower, upper=upper))
        return merge_input_bounds(inputs, field_ids)


def _carried_file(head: LakeHead, copy: CarriedDelete, deletes: Any) -> Any:
    jvm: Any = head.spark._jvm
    gateway: Any = head.spark.sparkContext._gateway
    original = next(file for file in deletes if str(file.location()) == copy.original.path)
    ids = gateway.new_array(jvm.int, len(copy.original.equality_ids))
    for position, field_id in enumerate(copy.original.equality_ids):
        ids[position] = field_id
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(head.table.specs().get(copy.original.spec_id))
    # Iceberg's own copy leaves the equality columns out.
    return builder.copy(original).ofEqualityDeletes(ids).withPath(copy.path).build()


def _delete_file(head: LakeHead, file: NewDelete, partition: Any) -> Any:
    jvm: Any = head.spark._jvm
    iceberg = jvm.org.apache.iceberg
    spec = head.table.specs().get(file.like.spec_id)
    builder = (
        iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofPositionDeletes()
        .withPath(file.path)
        .withFileSizeInBytes(file.size_bytes)
    )
    if file.length:
        builder = builder.withFormat(iceberg.FileFormat.PUFFIN).withRecordCount(file.rows)
        builder = builder.withContentOffset(file.offset).withContentSizeInBytes(file.length)
    else:
        metrics = java_metrics(jvm, position_delete_metrics(file.path))
        builder = builder.withFormat(iceberg.FileFormat.PARQUET).withMetrics(metrics)
    if spec.isPartitioned():
        builder = builder.withPartition(partition)
    if file.referenced_file is not None:
        builder = builder.withReferencedDataFile(file.referenced_file)
    return builder.build()
