"""Tables of format version 3: deletion vectors, row lineage, defaults, new types; what Spark reads before and after each operation."""

from __future__ import annotations

from typing import Any

from tests.spark.ground import Ground
from tests.spark.lake import Lake

MODES = ", 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
LINEAGE = "_row_id, _last_updated_sequence_number"


def make(ground: Ground, columns: str = "id bigint, name string", **changes: Any) -> Lake:
    lake = Lake.make(ground, columns, properties=MODES, **changes)
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    return lake


def with_lineage(lake: Lake) -> list[tuple[Any, ...]]:
    """Every row with its id and the commit that last changed it, as Spark says."""
    found = lake.spark.sql(f"select *, {LINEAGE} from {lake.sql_name}").collect()
    return sorted((tuple(row) for row in found), key=repr)


def test_deletion_vectors_are_applied_and_every_row_keeps_its_lineage(ground: Ground) -> None:
    lake = make(ground)
    lake.append([(i, f"name {i}") for i in range(100)], files=2)
    lake.append([(i, f"name {i}") for i in range(100, 200)])
    lake.run("delete from {t} where id % 7 = 3")
    lake.run("update {t} set name = 'new' where id % 10 = 5")
    before = with_lineage(lake)
    assert len({row[-1] for row in before}) > 2
    told = lake.compact()
    assert told.status == "done", told
    assert with_lineage(lake) == before
    assert not lake.seen().deletes
    assert lake.compact().status == "skipped"
