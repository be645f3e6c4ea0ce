"""Position and equality deletes by Iceberg's rules: random histories of files, partitions and deletes against a plain
model."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thermocline.gateway.lake_arm.scan_sql import render_scan
from thermocline.gateway.sql.column_mapping import MappedColumn, map_column
from thermocline.lake.read.scan import ScanPlan, plan_scan
from thermocline.lake.read.table_metadata import LakeField, LakeTable, SnapshotFile, SnapshotFiles

ID = LakeField(name="id", field_id=1, kind="long")
KIND = LakeField(name="kind", field_id=2, kind="string")
COLUMNS = cast(tuple[MappedColumn, ...], (map_column(ID, None), map_column(KIND, None)))

Row = tuple[int | None, str | None]


@dataclass(frozen=True)
class Append:
    """A data file."""

    partition: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class DeleteEqual:
    """An equality-delete file over `id`, or over both columns; without a partition it is for all."""

    partition: int | None
    columns: Literal[1, 2]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class DeletePositions:
    """A position-delete file: file numbers (modulo those that exist) and row numbers."""

    places: tuple[tuple[int, int], ...]


_rows = st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.sampled_from([None, "a", "b"]))
_changes = st.one_of(
    st.builds(Append, partition=st.integers(0, 1), rows=st.lists(_rows, min_size=1, max_size=6).map(tuple)),
    st.builds(
        DeleteEqual,
        partition=st.sampled_from([None, 0, 1]),
        columns=st.sampled_from([1, 2]),
        rows=st.lists(_rows, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        DeletePositions,
        places=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4).map(tuple),
    ),
)


@dataclass
class Model:
    """What must be left, and the files that say so."""

    directory: Path
    data: list[SnapshotFile] = field(default_factory=list)
    deletes: list[SnapshotFile] = field(default_factory=list)
    alive: list[dict[int, tuple[int, Row]]] = field(default_factory=list)
    sequence: int = 0
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def apply(self, change: Append | DeleteEqual | DeletePositions, *, in_the_same_commit: bool) -> None:
        self.sequence += not in_the_same_commit
        match change:
            case Append():
                self.data.append(self._write(change.rows, 2, (0, change.partition), ()))
                self.alive.append({at: (change.partition, row) for at, row in enumerate(change.rows)})
            case DeleteEqual():
                partition: tuple[object, ...] = () if change.partition is None else (0, change.partition)
                self.deletes.append(self._write(change.rows, change.columns, partition, (1, 2)[: change.columns]))
                gone = {row[: change.columns] for row in change.rows}
                older = [
                    rows
                    for file, rows in zip(self.data, self.alive, strict=True)
                    if file.sequence_number < self.sequence
                ]
                for rows in older:
                    for at, (home, row) in list(rows.items()):
                        if change.partition in (None, home) and row[: change.columns] in gone:
                            del rows[at]
            case DeletePositions():
                self._delete_positions(change)

    def _delete_positions(self, change: DeletePositions) -> None:
        if not self.data:
            return
        places = [(number % len(self.data), at) for number, at in change.places]
        for number, at in places:
            self.alive[number].pop(at, None)
        path = self.directory / f"{next(self.numbers)}.parquet"
        pq.write_table(
            pa.table({"file_path": [self.data[number].path for number, _ in places], "pos": [at for _, at in places]}),
            path,
        )
        self.deletes.append(self._file(path, len(places), (), ()))

    def _write(
        self, rows: tuple[Row, ...], columns: int, partition: tuple[object, ...], equality_ids: tuple[int, ...]
    ) -> SnapshotFile:
        path = self.directory / f"{next(self.numbers)}.parquet"
        arrays = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
        fields = [
            pa.field(f.name, a.type, metadata={"PARQUET:field_id": str(f.field_id)})
            for f, a in zip((ID, KIND), arrays, strict=True)
        ]
        pq.write_table(pa.table(arrays[:columns], schema=pa.schema(fields[:columns])), path)
        return self._file(path, len(rows), partition, equality_ids)

    def _file(
        self, path: Path, count: int, partition: tuple[object, ...], equality_ids: tuple[int, ...]
    ) -> SnapshotFile:
        return SnapshotFile(
            path=f"file://{path}",
            record_count=count,
            size_bytes=1,
            sequence_number=self.sequence,
            lower={},
            upper={},
            null_counts={},
            partition=partition,
            equality_ids=equality_ids,
        )

    def expected(self) -> list[Row]:
        return sorted((row for rows in self.alive for _, row in rows.values()), key=repr)


class _Table(LakeTable):
    """A table whose one snapshot is given, not read."""

    __slots__ = ()
    given: SnapshotFiles

    def files(self, snapshot_id: int) -> SnapshotFiles:
        return type(self).given


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(changes=st.lists(st.tuples(st.booleans(), _changes), min_size=1, max_size=12))
def test_what_random_deletes_leave_is_what_iceberg_says(
    changes: list[tuple[bool, Append | DeleteEqual | DeletePositions]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model = Model(Path(directory))
        for together, change in changes:
            model.apply(change, in_the_same_commit=together)
        _Table.given = SnapshotFiles(snapshot_id=1, data=tuple(model.data), deletes=tuple(model.deletes))
        table = _Table(location="", uuid="", fields=(ID, KIND), snapshot_ids=frozenset({1}), metadata=cast(Any, None))
        assert _read(plan_scan(table, 1, ())) == model.expected()


def _read(plan: ScanPlan) -> list[Row]:
    if not plan.data:
        return []
    source = render_scan(plan, COLUMNS)
    with duckdb.connect(":memory:") as conn:
        return sorted(conn.execute("SELECT c1, c2 FROM " + source.text, list(source.parameters)).fetchall(), key=repr)
