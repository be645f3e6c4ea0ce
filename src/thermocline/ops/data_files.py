"""The data files of a snapshot with their tier keys' ends and the position deletes that may name their rows, from
manifests alone."""

from __future__ import annotations

from thermocline.core.names import TableName
from thermocline.errors import LakeLayoutUnsupported
from thermocline.lake.commit.compare_and_swap import LakeHead
from thermocline.lake.read.table_metadata import SnapshotFile, read_lake_table
from thermocline.spark.kernels.fold_range import CandidateFile

_PATH_FIELD_ID = 2_147_483_546


def read_files(head: LakeHead, tier_key_id: int) -> tuple[CandidateFile, ...]:
    """The files of a head."""
    return list_files(head.metadata_location, head.snapshot_id, head.name, tier_key_id)


def list_files(
    metadata_location: str, snapshot_id: int | None, name: TableName, tier_key_id: int
) -> tuple[CandidateFile, ...]:
    """The files of a snapshot; none when there is none."""
    if snapshot_id is None:
        return ()
    files = read_lake_table(metadata_location).files(snapshot_id)
    if odd := [
        delete.path
        for delete in files.deletes
        if _PATH_FIELD_ID not in delete.lower or not delete.path.endswith(".parquet")
    ]:
        raise LakeLayoutUnsupported(f"The lake table of {name} has deletes that folding cannot read: {odd[0]}.")
    return tuple(
        CandidateFile(
            path=file.path,
            lower_key=_end(name, file, file.lower.get(tier_key_id)),
            upper_key=_end(name, file, file.upper.get(tier_key_id)),
            deletes=tuple(delete.path for delete in files.deletes if _may_name(delete, file)),
        )
        for file in files.data
    )


def _may_name(delete: SnapshotFile, file: SnapshotFile) -> bool:
    """Whether a file of position deletes can name rows of a data file: by its age, and by the paths it holds."""
    path = file.path.encode()
    lowest, highest = delete.lower[_PATH_FIELD_ID], delete.upper.get(_PATH_FIELD_ID)
    return file.sequence_number <= delete.sequence_number and lowest <= path and (highest is None or path <= highest)


def _end(name: TableName, file: SnapshotFile, encoded: bytes | None) -> int:
    if encoded is None:
        raise LakeLayoutUnsupported(f"The lake file {file.path} of {name} has no bounds for the tier key.")
    return int.from_bytes(encoded, "little", signed=True)
