"""Commit to the lake on exactly the metadata that was read, or not at all.

Iceberg's own `commit()` refreshes and rebases silently, whatever its retry setting, so the append of a process that was
presumed dead would still land. Here the new snapshot is applied, the base is compared, and the catalog's
compare-and-swap decides. Every commit carries its op's stamp, and the stamp is looked up again before any result other
than "committed": a lost connection may hide a commit that succeeded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from thermocline.core.axis import AXIS_MAX, AXIS_MIN
from thermocline.core.metrics_modes import current_schema, plan_metrics_modes
from thermocline.core.names import TableName
from thermocline.core.op_stamp import KIND_KEY, OP_KEY, T_KEY, TABLE_KEY
from thermocline.errors import (
    CommitFailed,
    CommitInconsistent,
    CommitUnknown,
    LakeLayoutUnsupported,
    LakeTableMissing,
    LostRace,
    RangeAlreadyInLake,
)
from thermocline.lake.commit.flush import flush_commit, flush_manifests
from thermocline.lake.commit.java_metrics import java_metrics
from thermocline.lake.commit.java_values import java_class, list_of_longs
from thermocline.lake.commit.staged_metadata import remove_staged_metadata
from thermocline.parquet.deletes.position_deletes import WrittenDeletes
from thermocline.parquet.encode.lake_writer import WrittenFile
from thermocline.parquet.footer.file_metrics import (
    FooterFacts,
    plan_metrics,
    position_delete_metrics,
    read_footer_facts,
)
from thermocline.parquet.values.partition_values import LakePartition, PartitionValue
from thermocline.spark.spark_session import java_catalog

FENCE_PROPERTY = "thermocline.fence"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpStamp:
    """The properties of an op in the summary of its snapshot."""

    op_id: str
    kind: str
    table_id: int
    t: int | None = None

    def summary(self) -> dict[str, str]:
        stamped = {OP_KEY: self.op_id, KIND_KEY: self.kind, TABLE_KEY: str(self.table_id)}
        return stamped if self.t is None else {**stamped, T_KEY: str(self.t)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Keys from `low` up to, not including, `high`, on the axis; the ends of the axis mean no bound."""

    column: str
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeHead:
    """The current metadata of a lake table when it was read: the base of every commit made on it. Holds the Java
    table."""

    name: TableName
    location: str
    metadata_location: str
    snapshot_id: int | None
    ops: Mapping[str, int]
    properties: Mapping[str, str]
    metadata: Mapping[str, Any] = field(repr=False, compare=False)
    table: Any = field(repr=False, compare=False)
    base: Any = field(repr=False, compare=False)
    spark: SparkSession = field(repr=False, compare=False)

    @property
    def partition(self) -> LakePartition | None:
        """The one partition field of a registered table. Other Iceberg tables may have several."""
        return _partition_of(self.metadata)


def load_table(spark: SparkSession, name: TableName) -> LakeHead:
    """Load the current state of a lake table."""
    jvm: Any = spark._jvm
    try:
        space = java_class(jvm, "org.apache.iceberg.catalog.Namespace").of(_strings(spark, name.schema))
        table = java_catalog(spark).loadTable(
            java_class(jvm, "org.apache.iceberg.catalog.TableIdentifier").of(space, name.table)
        )
        base = table.operations().current()
        metadata = read_metadata(jvm, base)
    except Py4JJavaError as problem:
        if _java_class(problem).endswith(("NoSuchTableException", "NotFoundException", "NoSuchNamespaceException")):
            raise LakeTableMissing(f"The lake table of {name} is not there: {_java_sentence(problem)}.") from None
        raise
    current = metadata.get("current-snapshot-id")
    return LakeHead(
        name=name,
        location=metadata["location"],
        metadata_location=base.metadataFileLocation(),
        snapshot_id=None if current in (None, -1) else current,
        ops=_ops_of(metadata),
        properties=metadata.get("properties", {}),
        metadata=metadata,
        table=table,
        base=base,
        spark=spark,
    )


def read_metadata(jvm: Any, base: Any) -> dict[str, Any]:
    """A table's metadata as JSON. Gzipped in the JVM: py4j replies over one buffer stall 40 ms."""
    gzipped = java_class(jvm, "org.apache.iceberg.inmemory.InMemoryOutputFile")("table.gz.metadata.json")
    java_class(jvm, "org.apache.iceberg.TableMetadataParser").overwrite(base, gzipped)
    metadata: dict[str, Any] = json.loads(gzip.decompress(gzipped.toByteArray()))
    return metadata


def _strings(spark: SparkSession, *values: str) -> Any:
    """A Java String[], as varargs require."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for position, value in enumerate(values):
        array[position] = value
    return array


def find_op(head: LakeHead, op_id: str) -> int | None:
    """The snapshot an op made, if it committed."""
    return head.ops.get(op_id)


def append_range(head: LakeHead, files: Sequence[WrittenFile], stamp: OpStamp, conflict: KeyRange | None) -> int:
    """Append files on exactly this head; returns the new snapshot's id. Refuses a range of which the head already has
    rows."""
    if (done := find_op(head, stamp.op_id)) is not None:
        return done
    if conflict is not None:
        check_range_is_new(head, conflict)
    update = head.table.newAppend()
    for data_file in _data_files(head, files):
        update.appendFile(data_file)
    for key, value in stamp.summary().items():
        update.set(key, value)
    return commit_snapshot(head, update, stamp.op_id)


def apply_row_delta(
    head: LakeHead,
    files: Sequence[WrittenFile],
    deletes: Sequence[WrittenDeletes],
    stamp: OpStamp,
    *,
    remove: Sequence[str] = (),
) -> int:
    """Add rows, delete rows and remove whole files in one commit on exactly this head; returns the new snapshot's
    id."""
    if (done := find_op(head, stamp.op_id)) is not None:
        return done
    update = head.table.newRowDelta()
    if head.snapshot_id is not None:
        update.validateFromSnapshot(head.snapshot_id)
    for data_file in _data_files(head, files):
        update.addRows(data_file)
    for delete_file in _delete_files(head, deletes):
        update.addDeletes(delete_file)
    for gone in _files_of_head(head, remove):
        update.removeRows(gone)
    update.validateDataFilesExist(sorted({path for delete in deletes for path in delete.data_files}))
    update.validateDeletedFiles()
    for key, value in stamp.summary().items():
        update.set(key, value)
    return commit_snapshot(head, update, stamp.op_id)


def _files_of_head(head: LakeHead, paths: Sequence[str]) -> list[Any]:
    """The head's data files as Iceberg objects. Never by path: Iceberg deletes a file that is removed by path."""
    wanted, found = set(paths), []
    if not wanted:
        return []
    tasks = head.table.newScan().useSnapshot(head.snapshot_id).planFiles()
    try:
        planned = tasks.iterator()
        while planned.hasNext():
            if (file := planned.next().file()).location() in wanted:
                found.append(file)
    finally:
        tasks.close()
    if len(found) != len(wanted):
        raise CommitInconsistent(
            f"{len(wanted) - len(found)} files to be removed are not in the lake table of {head.name}."
        )
    return found


def check_range_is_new(head: LakeHead, wanted: KeyRange) -> None:
    """Refuse when a data file of the head may hold keys of the range, by its bounds."""
    if head.snapshot_id is None:
        return
    jvm: Any = head.spark._jvm
    scan = head.table.newScan().useSnapshot(head.snapshot_id)
    if (bounds := _render_range(wanted)) is not None:
        scan = scan.filter(jvm.org.apache.iceberg.expressions.ExpressionParser.fromJson(bounds))
    tasks = scan.planFiles()
    try:
        found = tasks.iterator()
        if found.hasNext():
            raise RangeAlreadyInLake(
                f"The lake table of {head.name} already has rows with {wanted.column} in [{wanted.low}, "
                f"{wanted.high}): "
                f"{found.next().file().location()}."
            )
    finally:
        tasks.close()


def fence(head: LakeHead, op_id: str) -> None:
    """Change the table's metadata without changing a row, so that no commit on an earlier head can succeed."""
    jvm: Any = head.spark._jvm
    metadata = jvm.org.apache.iceberg.TableMetadata.buildFrom(head.base).setProperties({FENCE_PROPERTY: op_id}).build()
    try:
        swap_metadata(head, metadata)
    except Py4JJavaError as problem:
        if load_after_failure(head, problem).properties.get(FENCE_PROPERTY) != op_id:
            raise LostRace(f"The lake table of {head.name} moved while it was being fenced.") from None


def settle(spark: SparkSession, name: TableName, op_id: str, attempts: int = 10) -> int | None:
    """Decide an op finally: the snapshot it made, or None after a fence that prevents it from ever committing."""
    for _ in range(attempts):
        head = load_table(spark, name)
        if (done := find_op(head, op_id)) is not None:
            return flush_snapshot(head, done)
        if head.properties.get(FENCE_PROPERTY) == op_id:
            return None
        try:
            fence(head, op_id)
        except LostRace:
            continue
        return None
    raise LostRace(f"The lake table of {name} moves faster than operation {op_id} can be settled.")


def commit_snapshot(head: LakeHead, update: Any, op_id: str) -> int:
    """Apply an Iceberg update and commit it on exactly this head; returns the new snapshot's id."""
    jvm: Any = head.spark._jvm
    metadata: Any = None
    try:
        snapshot = update.apply()
        metadata = jvm.org.apache.iceberg.TableMetadata.buildFrom(head.base).setBranchSnapshot(snapshot, "main").build()
        flush_manifests(snapshot.manifestListLocation())
        swap_metadata(head, metadata)
        flush_commit(snapshot.manifestListLocation())
        return int(snapshot.snapshotId())
    except Py4JJavaError as problem:
        after = load_after_failure(head, problem)
        if (done := find_op(after, op_id)) is not None:
            return flush_snapshot(after, done)
        if after.metadata_location != head.metadata_location:
            raise clean_up_lost_race(head, after, metadata) from None
        return settle_failed(head, op_id, problem)


def flush_snapshot(head: LakeHead, snapshot_id: int) -> int:
    """Flush the files of a snapshot's commit and the newest metadata; returns the snapshot id."""
    for snapshot in head.metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == snapshot_id and "manifest-list" in snapshot:
            flush_commit(snapshot["manifest-list"])
    return snapshot_id


def clean_up_lost_race(head: LakeHead, after: LakeHead, metadata: Any) -> LostRace:
    """The error of a commit that can no longer succeed because the table changed; removes the metadata file written for
    it."""
    if metadata is not None:
        jvm: Any = head.spark._jvm
        named = {after.metadata_location, *(entry["metadata-file"] for entry in after.metadata.get("metadata-log", ()))}
        remove_staged_metadata(
            head.metadata_location, named, jvm.org.apache.iceberg.TableMetadataParser.toJson(metadata)
        )
    return LostRace(f"The lake table of {head.name} moved since it was looked at; nothing was committed.")


def settle_failed(head: LakeHead, op_id: str, problem: Py4JJavaError) -> int:
    """Settle a commit that failed on an unchanged table: it may still be in progress, so it is fenced before it is
    reported as failed."""
    try:
        done = settle(head.spark, head.name, op_id)
    except (Py4JJavaError, LakeTableMissing, LostRace):
        raise CommitUnknown(
            f"Operation {op_id} on {head.name} may or may not have committed: {_java_sentence(problem)}."
        ) from None
    if done is not None:
        return done
    raise CommitFailed(
        f"The commit on {head.name} failed, and nothing changed in the lake: {_java_sentence(problem)}."
    ) from None


def swap_metadata(head: LakeHead, metadata: Any) -> None:
    """Replace exactly this head by new metadata."""
    operations = head.table.operations()
    # apply() refreshes: when that found another metadata file, the snapshot was made on a base that was not read.
    if operations.current().metadataFileLocation() != head.metadata_location:
        raise LostRace(f"The lake table of {head.name} moved since it was looked at; nothing was committed.")
    operations.commit(head.base, metadata)


def load_after_failure(head: LakeHead, problem: Py4JJavaError) -> LakeHead:
    """The table after a commit that failed; the outcome is unknown when it cannot be read."""
    try:
        return load_table(head.spark, head.name)
    except (Py4JJavaError, LakeTableMissing) as again:
        raise CommitUnknown(
            f"The commit on {head.name} failed ({_java_sentence(problem)}), and the lake cannot be read to "
            "see whether it arrived."
        ) from again


def _data_files(head: LakeHead, files: Sequence[WrittenFile]) -> list[Any]:
    jvm: Any = head.spark._jvm
    iceberg = jvm.org.apache.iceberg
    # Each part of a dotted name is a round trip to the JVM, so names are resolved once and not for each file.
    builder_of, spec, parquet = iceberg.DataFiles.builder, head.table.spec(), iceberg.FileFormat.PARQUET
    schema, modes = current_schema(head.metadata), plan_metrics_modes(head.metadata)
    made = []
    for file in files:
        facts = read_footer_facts(file.path, schema)
        check_rows(file.path, facts, file.rows)
        metrics = java_metrics(jvm, plan_metrics(facts, modes, file.nan_counts, file.float_ends))
        # By the path as registered: an InputFile may spell it differently, and two spellings look like two files.
        builder = (
            builder_of(spec)
            .withPath(file.path)
            .withFileSizeInBytes(file.size_bytes)
            .withFormat(parquet)
            .withMetrics(metrics)
        )
        builder = builder.withSplitOffsets(list_of_longs(jvm, file.split_offsets))
        if file.partition is not None:
            builder = builder.withPartitionValues([file.partition.text])
        made.append(builder.build())
    return made


def check_rows(path: str, facts: FooterFacts, rows: int) -> None:
    """Refuse a file whose footer has another number of rows than were written."""
    if facts.rows != rows:
        raise CommitInconsistent(f"The lake file {path} has {facts.rows} rows, and {rows} were written.")


def _delete_files(head: LakeHead, deletes: Sequence[WrittenDeletes]) -> list[Any]:
    jvm: Any = head.spark._jvm
    iceberg = jvm.org.apache.iceberg
    builder_of, spec, parquet = iceberg.FileMetadata.deleteFileBuilder, head.table.spec(), iceberg.FileFormat.PARQUET
    partitions: dict[PartitionValue, Any] = {}
    made = []
    for file in deletes:
        builder = (
            builder_of(spec)
            .ofPositionDeletes()
            .withPath(file.path)
            .withFileSizeInBytes(file.size_bytes)
            .withFormat(parquet)
        )
        builder = builder.withMetrics(java_metrics(jvm, position_delete_metrics(file.path)))
        if file.partition is not None:
            if file.partition not in partitions:
                partitions[file.partition] = _partition_struct(head, file.partition)
            builder = builder.withPartition(partitions[file.partition])
        made.append(builder.build())
    return made


def _partition_struct(head: LakeHead, value: PartitionValue) -> Any:
    """A partition value as an Iceberg object. Only the builder of data files parses one from text."""
    jvm: Any = head.spark._jvm
    builder = (
        jvm.org.apache.iceberg.DataFiles.builder(head.table.spec()).withPath("/none.parquet").withFileSizeInBytes(0)
    )
    return builder.withRecordCount(0).withPartitionValues([value.text]).build().partition()


def _ops_of(metadata: Mapping[str, Any]) -> dict[str, int]:
    stamped = (
        (snapshot.get("summary", {}).get(OP_KEY), snapshot["snapshot-id"]) for snapshot in metadata.get("snapshots", ())
    )
    return {op_id: snapshot_id for op_id, snapshot_id in stamped if op_id}


def _partition_of(metadata: Mapping[str, Any]) -> LakePartition | None:
    spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    fields = [part for part in spec["fields"] if part["transform"] != "void"]
    if not fields:
        return None
    schema = next(schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"])
    names = {column["id"]: column["name"] for column in schema["fields"]}
    if len(fields) > 1:
        raise LakeLayoutUnsupported(
            f"The lake table at {metadata['location']} is partitioned by {len(fields)} fields; one is supported."
        )
    return LakePartition(
        field=fields[0]["name"], transform=fields[0]["transform"], source=names[fields[0]["source-id"]]
    )


def _render_range(wanted: KeyRange) -> str | None:
    """The range as Iceberg's JSON expression; numbers become longs, which Iceberg interprets on the axis of every key
    type."""
    parts: list[dict[str, Any]] = []
    if wanted.low != AXIS_MIN:
        parts.append({"type": "gt-eq", "term": wanted.column, "value": wanted.low})
    if wanted.high != AXIS_MAX:
        parts.append({"type": "lt", "term": wanted.column, "value": wanted.high})
    if not parts:
        return None
    return json.dumps(parts[0] if len(parts) == 1 else {"type": "and", "left": parts[0], "right": parts[1]})


def _java_class(problem: Py4JJavaError) -> str:
    return str(problem.java_exception.getClass().getName())


def _java_sentence(problem: Py4JJavaError) -> str:
    text = str(problem.java_exception.getMessage() or _java_class(problem))
    return (text.strip().splitlines() or [""])[0].rstrip(".")
