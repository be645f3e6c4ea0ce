"""What a rewrite chooses for its outputs: dictionaries where values repeat all over the bin, pages that suit the
codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.bins import Bin, iceberg_schema, lake_field, local, read_back

from thermocline.parquet.byte_files import FileSource
from thermocline.parquet.footer.footer import read_footer
from thermocline.parquet.rewrite_task import BinResult, SortField
from thermocline.parquet.thrift.structs import read_struct

SCHEMA = pa.schema(
    [lake_field("id", pa.int64(), 1), lake_field("name", pa.string(), 2), lake_field("kind", pa.string(), 3)]
)
JSON = iceberg_schema((1, "id", "long"), (2, "name", "string"), (3, "kind", "string"))


def dictionaries_in(result: BinResult) -> dict[str, bool]:
    """Of each column, whether the first row group holds it by dictionary."""
    group = pq.read_metadata(local(result.outputs[0].path)).row_group(0)
    return {group.column(n).path_in_schema: group.column(n).has_dictionary_page for n in range(group.num_columns)}


@pytest.mark.parametrize("before", [None, "the same"], ids=["null", "one value"])
@pytest.mark.parametrize("kernel", ["reencode", "sort"])
def test_a_column_that_repeats_in_the_oldest_files_alone_gets_no_dictionary(
    tmp_path: Path, before: str | None, kernel: str
) -> None:
    lake = Bin(tmp_path, schema=JSON)
    for file in range(6):
        names = [before] * 500 if file < 3 else [f"{n} of {file}" for n in range(500)]
        kinds = [None] * 500 if file > 3 else [f"kind {n % 5}" for n in range(500)]
        ids = pa.array(range(file * 500, file * 500 + 500))
        lake.add(pa.table([ids, pa.array(names, pa.string()), pa.array(kinds, pa.string())], schema=SCHEMA))
    result = lake.run(kernel, sort=(SortField(field_id=1),) if kernel == "sort" else ())
    assert dictionaries_in(result) == {"id": False, "name": False, "kind": True}
    assert read_back(result).column("name").to_pylist()[1499:1501] == [before, "0 of 3"]


def test_what_repeats_from_file_to_file_gets_a_dictionary(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    for file in range(40):
        ids = pa.array(range(file * 20, file * 20 + 20))
        lake.add(
            pa.table([ids, [f"name {n % 4}" for n in range(20)], [f"{n} of {file}" for n in range(20)]], schema=SCHEMA)
        )
    assert dictionaries_in(lake.run("reencode")) == {"id": False, "name": True, "kind": False}


def page_count(path: str, column: int) -> int:
    def unpaced(_read: int, _written: int) -> None:
        return None

    with FileSource(path, unpaced) as source:
        chunk = read_footer(source).groups[0].chunks[column]
        pages: list[Any] = read_struct(source.read_at(*chunk.offset_index))[0][1]
        return len(pages)


def test_pages_are_small_where_the_codecs_tables_fill_the_cache(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    texts = pa.array([f"the text of number {n:06d}" for n in range(20_000)])
    lake.add(pa.table([pa.array(range(20_000)), texts, texts], schema=SCHEMA))
    outputs = [lake.run("reencode", compression_level=level).outputs[0].path for level in (1, 3)]
    assert page_count(outputs[0], 1) == 1
    assert page_count(outputs[1], 1) > 5
