"""A file that was spliced is spliced again: its page indexes say where its pages are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.parquet.rewrite_task import BinTask, InputFile
from thermocline.spark.kernels.compact_bin import run_bin


def test_offset_indexes_that_grew_as_their_pages_moved_keep_their_length(tmp_path: Path) -> None:
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    lake = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    files = []
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(
            pa.table([pa.array(range(number * 50, number * 50 + 50))], schema=pa.schema([field])),
            path,
            write_page_index=True,
        )
        files.append(path)
    made = files
    for round_ in range(3):
        task = BinTask(
            number=0,
            kernel="splice",
            deletes=(),
            schema_json=json.dumps(lake),
            directory=f"file://{tmp_path}",
            name_prefix=f"round{round_}",
            target_bytes=1 << 30,
            inputs=tuple(
                InputFile(
                    path=f"file://{path}",
                    size_bytes=path.stat().st_size,
                    record_count=pq.read_metadata(path).num_rows,
                    sequence_number=1,
                )
                for path in made
            ),
        )
        result = run_bin(task, lambda _: None, lambda _read, _written: None)
        assert result.kernel == "splice"
        made = [Path(result.outputs[0].path.removeprefix("file://")), files[0]]
    assert pq.read_table(made[0]).column("id").to_pylist() == [*range(200), *range(50), *range(50)]
