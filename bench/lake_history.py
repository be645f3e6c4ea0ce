"""Large Iceberg tables made quickly: manifests are stamped out of a few that PyIceberg wrote, and a whole history is
one commit.

Stamped manifests are ordinary ones: only the numbers in the names of their files differ, and those have one width.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.typedef import Record

from thermocline.lake.commit.compare_and_swap import LakeHead, swap_metadata
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.locations import without_file_scheme

_WIDTH = 10
_MARK = "n" + "0" * _WIDTH


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stamp:
    """A manifest in pieces: what comes before its records, the records, and the marker behind each block."""

    head: bytes
    records: bytes
    marker: bytes
    like: ManifestFile


class LakeHistory:
    """Writes manifests and snapshots of one table, partitioned by one number."""

    def __init__(self, head: LakeHead) -> None:
        self._head = head
        self._metadata = read_lake_table(head.metadata_location).metadata
        self.location = f"file://{Path(without_file_scheme(head.location))}"
        self._io = PyArrowFileIO()
        self._stamp = lru_cache(maxsize=256)(self._make_stamp)
        Path(without_file_scheme(self.location), "data").mkdir(parents=True, exist_ok=True)

    def file(self, number: int, part: int) -> str:
        """Where the data file of that number in that partition is."""
        return f"{self.location}/data/n{number:0{_WIDTH}}-{part}.parquet"

    def manifest(self, numbers: Sequence[int], parts: tuple[int, ...], snapshot: int = 1) -> ManifestFile:
        """A manifest that adds one file of each partition for each number."""
        stamp = self._stamp(parts, snapshot)
        records = b"".join(stamp.records.replace(_MARK.encode(), f"n{number:0{_WIDTH}}".encode()) for number in numbers)
        path = f"{self.location}/metadata/made-{uuid.uuid4()}.avro"
        data = stamp.head + _varint(len(numbers) * len(parts)) + _varint(len(records)) + records + stamp.marker
        Path(without_file_scheme(path)).write_bytes(data)
        made = deepcopy(stamp.like)
        made._data[0], made._data[1], made._data[7], made._data[10] = (
            path,
            len(data),
            len(numbers) * len(parts),
            len(numbers) * len(parts),
        )
        return made

    def _make_stamp(self, parts: tuple[int, ...], snapshot: int) -> _Stamp:
        path = f"{self.location}/metadata/stamp-{uuid.uuid4()}.avro"
        spec, schema = self._metadata.spec(), self._metadata.schema()
        with write_manifest(2, spec, schema, self._io.new_output(path), snapshot, "null") as writer:
            for part in parts:
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{self.location}/data/{_MARK}-{part}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(part),
                    record_count=1,
                    file_size_in_bytes=1000,
                )
                writer.add_entry(
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
                )
        local, like = Path(without_file_scheme(path)), writer.to_manifest_file()
        data = local.read_bytes()
        local.unlink()
        marker = data[-16:]
        begin = data.index(marker) + 16
        records, left = b"", data[begin:]
        while left:
            _, after_count = _read_varint(left, 0)
            size, at = _read_varint(left, after_count)
            records, left = records + left[at : at + size], left[at + size + 16 :]
        return _Stamp(head=data[:begin], records=records, marker=marker, like=like)

    def commit(self, snapshots: Sequence[Sequence[ManifestFile]]) -> None:
        """The table's history, each snapshot with the manifests it names, the last one current; in one commit."""
        told: dict[str, Any] = deepcopy(dict(self._head.metadata))
        now_ms = int(time.time() * 1000)
        made = []
        for number, manifests in enumerate(snapshots, start=1):
            path = f"{self.location}/metadata/snap-{number}-{uuid.uuid4()}.avro"
            with write_manifest_list(
                2, self._io.new_output(path), number, number - 1 or None, number, "deflate"
            ) as lists:
                lists.add_manifests([deepcopy(manifest) for manifest in manifests])
            at_ms = now_ms - (len(snapshots) - number) * 10
            snapshot = {
                "snapshot-id": number,
                "sequence-number": number,
                "timestamp-ms": at_ms,
                "manifest-list": path,
                "schema-id": 0,
            }
            made.append(
                {
                    **snapshot,
                    **({"parent-snapshot-id": number - 1} if number > 1 else {}),
                    "summary": {"operation": "overwrite"},
                }
            )
        last = made[-1]["snapshot-id"]
        told |= {
            "snapshots": made,
            "snapshot-log": [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in made],
            "current-snapshot-id": last,
            "refs": {"main": {"snapshot-id": last, "type": "branch"}},
            "last-sequence-number": last,
            "last-updated-ms": now_ms,
        }
        jvm: Any = self._head.spark._jvm
        swap_metadata(self._head, jvm.org.apache.iceberg.TableMetadataParser.fromJson(json.dumps(told)))


def batches(count: int, size: int) -> Iterator[range]:
    """The numbers below `count`, so many at a time."""
    for begin in range(0, count, size):
        yield range(begin, min(begin + size, count))


def _varint(value: int) -> bytes:
    """Avro's number: zigzag, seven bits at a time."""
    value, out = value << 1, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value >> 1, at
