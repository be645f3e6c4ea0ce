"""Random histories of an Iceberg table with maintenance at any point: no ref, no held snapshot and no reader ever sees
another row.

Rows are written, deleted by position and by equality, the schema and the partitioning change, branches and tags are
made, snapshots are held and files staged; between any two steps any operation may run, as eager as it can be. After
each one the rows of every ref and every held snapshot are what they were, by Spark and for `main` by DuckDB too, every
named file exists, and nothing young or staged is gone.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent, ManifestContent
from tests.maintenance_ops import (
    run_compact,
    run_expire_snapshots,
    run_prune_metadata,
    run_remove_orphans,
    run_rewrite_manifests,
)
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.policy.policy import Policy
from thermocline.lake.read.reachable import every_path
from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.context import PassContext
from thermocline.runtime.locations import without_file_scheme

pytestmark = pytest.mark.property
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""A history takes seconds, so a failing one is printed as it is."""
HISTORIES = max(3, int(os.environ.get("THERMOCLINE_TEST_HISTORIES", "0")) // 20)

OPERATIONS: dict[str, Callable[[PassContext], Outcome]] = {
    "compact": run_compact,
    "expire": run_expire_snapshots,
    "orphans": run_remove_orphans,
    "manifests": run_rewrite_manifests,
    "prune": run_prune_metadata,
}
keys = st.integers(min_value=0, max_value=12)
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(keys, min_size=1, max_size=4)),
    st.tuples(st.just("delete_rows"), keys),
    st.tuples(st.just("delete_equal"), st.lists(keys, min_size=1, max_size=3)),
    st.tuples(st.just("schema"), st.sampled_from(["add", "rename", "drop"])),
    st.tuples(st.just("spec"), st.sampled_from(["bucket(2, id)", "truncate(4, id)"])),
    st.tuples(st.just("ref"), st.sampled_from(["branch", "tag"])),
    st.tuples(st.just("hold"), st.none()),
    st.tuples(st.just("stage"), st.none()),
)
operations = st.tuples(st.just("maintain"), st.sampled_from([*OPERATIONS, "compact", "compact", "expire"]))
histories = st.lists(st.one_of(steps, operations), min_size=4, max_size=9)


@dataclass
class History:
    """One table, what must stay as it is, and the rows it had."""

    lake: Lake
    held: list[int] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    columns: list[str] = field(default_factory=lambda: ["id", "body"])
    parts: list[str] = field(default_factory=list)
    made: int = 0

    def append(self, wanted: list[int]) -> None:
        rows = [tuple(key if column == "id" else f"{column} {key}" for column in self.columns) for key in wanted]
        self.lake.append(rows)

    def delete_rows(self, key: int) -> None:
        self.lake.run(f"delete from {{t}} where id % 5 = {key % 5}")

    def delete_equal(self, wanted: list[int]) -> None:
        if self.lake.head().snapshot_id is not None:
            self.lake.delete_equal({"id": pa.int64()}, [(key,) for key in wanted])

    def schema(self, change: str) -> None:
        self.made += 1
        if change == "add":
            self.lake.run(f"alter table {{t}} add column extra_{self.made} string")
            self.columns.append(f"extra_{self.made}")
        elif change == "rename":
            self.lake.run(f"alter table {{t}} rename column {self.columns[1]} to body_{self.made}")
            self.columns[1] = f"body_{self.made}"
        elif len(self.columns) > 2:
            self.lake.run(f"alter table {{t}} drop column {self.columns.pop()}")

    def spec(self, field_of: str) -> None:
        if field_of not in self.parts:
            self.parts.append(field_of)
            self.lake.run(f"alter table {{t}} add partition field {field_of} as part_{len(self.parts)}")

    def ref(self, kind: str) -> None:
        if self.lake.head().snapshot_id is None:
            return
        self.made += 1
        self.lake.run(f"alter table {{t}} create {kind} ref_{self.made}")
        self.refs.append(f"ref_{self.made}")

    def hold(self, _: None) -> None:
        """Somebody's unfinished operation began here."""
        snapshot = self.lake.head().snapshot_id
        if snapshot is not None:
            with closing(self.lake.lake_database.connect()) as conn:
                conn.execute(
                    "insert into thermocline.op_log (op_id, lake_id, kind, phase, base_snapshot, worker)"
                    " values (%s, %s, 'maintain', 'intent', %s, 'x')",
                    [uuid.uuid4(), self.lake.lake_id, snapshot],
                )
            self.held.append(snapshot)

    def stage(self, _: None) -> None:
        """A file that somebody registered long ago, and one that somebody else wrote just now."""
        data = Path(without_file_scheme(self.lake.head().location)) / "data"
        data.mkdir(parents=True, exist_ok=True)
        staged, young = data / f"staged-{uuid.uuid4().hex}.parquet", data / f"young-{uuid.uuid4().hex}.parquet"
        for file in (staged, young):
            file.write_bytes(b"not yet committed")
        long_ago = time.time() - 40 * 24 * 3600
        os.utime(staged, (long_ago, long_ago))
        with closing(self.lake.lake_database.connect()) as conn:
            conn.execute(
                "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)",
                [f"file:{staged}", self.lake.lake_id, uuid.uuid4()],
            )
        self.files += [staged, young]

    def maintain(self, operation: str) -> None:
        before = self.everything()
        with self.lake.context(
            policy={"snapshot_min_retained": 1, "snapshot_retention_ms": 1, "orphan_grace_ms": 1}
        ) as context:
            outcome = OPERATIONS[operation](context)
        assert outcome.status in ("done", "skipped"), outcome
        assert self.everything() == before, outcome
        self.check_files()

    def everything(self) -> dict[str, Any]:
        """The rows of main, of every ref and of every held snapshot."""
        if self.lake.head().snapshot_id is None:
            return {}
        seen: dict[str, Any] = {"main": self.lake.spark_rows()}
        by_duckdb = self.lake.lake_database.lake_by_duckdb(self.lake.name)
        if by_duckdb.column_names == self.columns:  # DuckDB reads a snapshot with the schema of its time
            assert sorted(map(repr, seen["main"])) == sorted(repr(tuple(row.values())) for row in by_duckdb.to_pylist())
        for place in (*(f"'{ref}'" for ref in self.refs), *map(str, self.held)):
            rows = self.lake.spark.sql(f"select * from {self.lake.sql_name} version as of {place}").collect()
            seen[place] = sorted(repr(tuple(row)) for row in rows)
        return seen

    def check_files(self) -> None:
        head = self.lake.head()
        metadata = read_lake_table(head.metadata_location).metadata
        named = [path for path in every_path(metadata, head.metadata_location) if "version-hint" not in path]
        missing = [path for path in named if not Path(without_file_scheme(path)).exists()]
        log = {entry.metadata_file for entry in metadata.metadata_log}
        assert not [path for path in missing if path not in log], missing
        assert all(file.exists() for file in self.files)
        current = metadata.current_snapshot()
        for manifest in current.manifests(LakeReader()) if current is not None else ():
            kinds = {
                entry.data_file.content != DataFileContent.DATA
                for entry in manifest.fetch_manifest_entry(LakeReader(), False)
            }
            assert kinds <= {manifest.content == ManifestContent.DELETES}, manifest.manifest_path


@pytest.mark.conforms("M-218", "M-198")
@settings(
    max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, phases=PHASES
)
@given(history=histories)
def test_maintenance_at_any_point_changes_no_row_of_any_ref(
    lake_database: LakeDatabase, history: list[tuple[str, Any]]
) -> None:
    properties = ", 'write.delete.mode'='merge-on-read', 'commit.manifest-merge.enabled'='false'"
    lake = Lake.make(lake_database, "id bigint, body string", table=f"t_{uuid.uuid4().hex[:8]}", properties=properties)
    lake.policy = Policy(rewrite_min_input_files=2, manifest_rewrite_min_manifests=2)
    lake.now = datetime.now(UTC) + timedelta(days=60)
    run = History(lake)
    run.append([1, 2, 3])
    for step, value in history:
        getattr(run, step)(value)
    before = run.everything()
    for operation in ("compact", "expire", "orphans"):
        run.maintain(operation)
    assert run.everything() == before
