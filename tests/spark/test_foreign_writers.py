"""Files as other programs leave them: every encoding, other spellings of paths, several schemas and specs, manifests
with odd entries."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintenance_ops import run_remove_orphans
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.lake.read.health_facts import read_health_facts
from thermocline.runtime.locations import without_file_scheme

ENCODINGS: tuple[dict[str, Any], ...] = (
    {"use_dictionary": False},
    {"use_dictionary": False, "column_encoding": {"id": "PLAIN", "x": "PLAIN", "name": "PLAIN"}, "compression": "none"},
    {
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT", "name": "DELTA_BYTE_ARRAY"},
    },
    {
        "use_dictionary": False,
        "column_encoding": {"x": "BYTE_STREAM_SPLIT", "name": "DELTA_LENGTH_BYTE_ARRAY"},
        "compression": "gzip",
    },
    {"data_page_version": "2.0", "version": "1.0", "write_statistics": False, "compression": "lz4"},
    {"row_group_size": 7, "data_page_size": 64, "write_page_index": True, "compression": "zstd"},
)
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(at)})
        for at, (name, kind) in enumerate({"id": pa.int64(), "x": pa.float64(), "name": pa.string()}.items(), start=1)
    ]
)


def table_of(first: int) -> pa.Table:
    """Forty rows; every ninth name is NULL."""
    ids = range(first, first + 40)
    return pa.table(
        [list(ids), [at / 7 for at in ids], [None if at % 9 == 0 else f"name {at % 5}" for at in ids]], schema=SCHEMA
    )


@pytest.mark.conforms("M-208")
def test_files_of_every_encoding_are_merged_and_a_lower_case_format_and_relative_manifests_are_read(
    lake_database: LakeDatabase,
) -> None:
    """Iceberg's own library cannot open a manifest by a relative path, so such a table is seen and swept, and not
    rewritten."""
    lake = Lake.make(lake_database, "id bigint, x double, name string")
    for number, options in enumerate(ENCODINGS):
        lake.add_file(table_of(40 * number), **options)
    rows = lake.rows()
    assert len(rows) == 40 * len(ENCODINGS)
    (manifest,) = {file.manifest for file in lake.seen().data if file.order == 0}
    patch_manifest(lake, manifest, b"PARQUET", b"parquet")
    assert lake.spark_rows() == rows
    assert lake.compact().sentence == f"compacted {len(ENCODINGS)} files into 1 (across 1 bins)"
    assert lake.rows() == rows
    lake.add_file(table_of(400))
    manifest = next(file.manifest for file in lake.seen().data if file.record_count == 40)
    make_relative(lake, manifest)
    assert sorted(file.record_count for file in lake.seen().data) == [40, 40 * len(ENCODINGS)]
    assert read_health_facts(lake.head().metadata_location).records == 40 + len(rows)
    refused = lake.compact()
    assert refused.status == "failed"
    assert "relative path" in refused.sentence
    files = files_of(lake)
    with lake.context(policy={"orphan_grace_ms": 1}) as context:
        assert run_remove_orphans(context).status in ("done", "skipped")
    assert files_of(lake) == files


def files_of(lake: Lake) -> set[Path]:
    return {path for path in Path(without_file_scheme(lake.head().location)).rglob("*") if path.is_file()}


def patch_manifest(lake: Lake, manifest: str, old: bytes, new: bytes) -> None:
    """Change a text in a manifest, and what its list says of the manifest's size."""
    path = Path(without_file_scheme(manifest))
    before = path.stat().st_size
    patch_avro(path, text_of(old), text_of(new))
    said = text_of(manifest.encode())
    patch_avro(list_of(lake), said + long_of(before), said + long_of(path.stat().st_size))


def make_relative(lake: Lake, manifest: str) -> None:
    location = lake.head().location.rstrip("/")
    short = without_file_scheme(manifest).removeprefix(without_file_scheme(location) + "/")
    patch_avro(list_of(lake), text_of(manifest.encode()), text_of(short.encode()))


def list_of(lake: Lake) -> Path:
    head = lake.head()
    return Path(
        without_file_scheme(
            next(s for s in head.metadata["snapshots"] if s["snapshot-id"] == head.snapshot_id)["manifest-list"]
        )
    )


def long_of(number: int) -> bytes:
    """Avro's form of a whole number that is not negative."""
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def text_of(text: bytes) -> bytes:
    return long_of(len(text)) + text


def patch_avro(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes in the blocks of an Avro file; Hadoop's checksum beside it goes."""
    data = path.read_bytes()
    sync = data[-16:]
    header, *blocks = data.split(sync)
    made, count = header + sync, 0
    for block in blocks[:-1]:
        at = 0
        for _ in range(2):  # the number of records, and the block's size
            begin = at
            while block[at] & 0x80:
                at += 1
            at += 1
            records = block[:begin] or block[:at]
        content = zlib.decompress(block[at:], wbits=-15)
        count += content.count(old)
        packed = zlib.compressobj(wbits=-15)
        squeezed = packed.compress(content.replace(old, new)) + packed.flush()
        made += records + long_of(len(squeezed)) + squeezed + sync
    assert count == 1, count
    path.write_bytes(made)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.conforms("M-076")
def test_position_deletes_name_their_files_in_any_spelling(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, x double, name string")
    paths = [lake.add_file(table_of(40 * number)) for number in range(5)]
    plain = [without_file_scheme(path) for path in paths]
    said = [f"file://{plain[0]}", f"file:{plain[1]}", plain[2], "data/" + Path(plain[3]).name]
    for number, spelling in enumerate(said):
        lake.delete_rows({spelling: [number, 20]})
    lake.delete_rows({f"file:{plain[4]}": [4], "data/" + Path(plain[3]).name: [30]})
    told = lake.compact()
    assert (told.status, told.counters["rows_written"]) == ("done", 200 - 10)
    assert (lake.seen().deletes, told.counters["removed_delete_files"]) == ((), 5)
    gone = {0, 20, 41, 60, 82, 100, 123, 140, 150, 164}
    assert {row[0] for row in lake.rows()} == set(range(200)) - gone


@pytest.mark.conforms("M-207")
def test_files_of_several_schemas_and_specs_are_compacted_each_in_its_own_spec(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id int, amount decimal(9,2), ratio float, note string, s struct<a: int>")
    lake.run("insert into {t} select id, 1.25, 0.5, 'old', named_struct('a', 1) from range(0, 40, 1, 2)")
    for change in (
        "alter column id type bigint",
        "alter column amount type decimal(18,2)",
        "alter column ratio type double",
        "rename column note to remark",
        "add column extra string",
        "alter column s.a type bigint",
        "add column s.b string",
    ):
        lake.run(f"alter table {{t}} {change}")
    lake.run(
        "insert into {t} select id, 7.75, 0.25, 'new', named_struct('a', 2, 'b', 'x'), 'more' from range(40, 60, 1, 2)"
    )
    lake.run("alter table {t} add partition field bucket(2, id)")
    lake.run("insert into {t} select id, 8.75, 0.125, 'last', null, 'more' from range(60, 100, 1, 2)")
    lake.run("alter table {t} drop column extra")
    rows = lake.spark_rows()
    specs = {file.spec_id for file in lake.seen().data}
    assert len(specs) == 2
    told = lake.compact()
    assert told.status == "done", told
    assert lake.spark_rows() == rows
    after = lake.seen().data
    assert len(after) == 3, "one file without a partition, one for each bucket"
    assert {file.spec_id for file in after} == specs
    widened = pq.read_schema(without_file_scheme(next(file.path for file in after if file.spec_id == min(specs))))
    assert [str(field.type) for field in widened][:4] == ["int64", "decimal128(18, 2)", "double", "string"]
    assert lake.compact().status == "skipped"
