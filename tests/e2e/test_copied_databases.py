"""A copy of a database shares its lake with the original: it is read, and left, and moves nothing until it is said to
be the original."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cloned_tables import ClonableTable
from tests.twin import Spanning

from thermocline.core.names import TableName
from thermocline.errors import CopiedDatabase
from thermocline.maintain.janitor import remove_leftover_lakes, remove_stray_files
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import wanted_places
from thermocline.ops.admin.recover import recover
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.register.unregistration import unregister
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.fixture
def copy(columns: ClonableTable) -> Iterator[Spanning]:
    with columns.clone(claimed=False) as made:
        yield made


def _files(spanning: Spanning) -> set[Path]:
    ((location,),) = spanning.query("select lake_location from thermocline.tables")
    return set(Path(without_file_scheme(location)).rglob("*"))


def _maintain(spanning: Spanning) -> None:
    run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest())


def _leave(spanning: Spanning, *, drop_lake: bool = False) -> None:
    unregister(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, drop_lake=drop_lake)


def test_a_copy_is_read_and_written_and_moves_nothing_of_the_lake(copy: Spanning) -> None:
    files = _files(copy)
    copy.both("update events set v = v + 1 where id = 7 returning *")
    copy.assert_same_rows()
    for refused in (copy.tier, copy.fold, lambda: _maintain(copy), lambda: _leave(copy, drop_lake=True)):
        with pytest.raises(CopiedDatabase, match="is a copy"):
            refused()
    with closing(connect(copy.dsn, autocommit=True)) as conn:
        conn.execute(
            "create table public.more (id bigint, ts timestamptz not null, primary key (id, ts)) partition "
            "by range (ts)"
        )
        staged = (
            "insert into thermocline.staged_files (path, table_id, op_id) select %s, t.id, gen_random_uuid() "
            "from thermocline.tables t"
        )
        conn.execute(staged, [f"file://{next(file for file in files if file.suffix == '.parquet')}"])
        for janitor in (remove_stray_files, remove_leftover_lakes):
            with pytest.raises(CopiedDatabase):
                janitor(conn, 0)
    with pytest.raises(CopiedDatabase):
        register(copy.dsn, RegisterRequest(table=TableName("public", "more"), tier_key="ts"), settings=copy.settings)
    assert _files(copy) == files
    copy.assert_same_rows()


def test_a_copy_may_be_left_and_the_lake_stays(copy: Spanning) -> None:
    files = _files(copy)
    ((location,),) = copy.query("select lake_location from thermocline.tables")
    _leave(copy)
    with pytest.raises(CopiedDatabase):
        _leave(copy, drop_lake=True)
    assert files <= set(Path(without_file_scheme(location)).rglob("*"))


def test_a_copy_that_is_claimed_goes_on(copy: Spanning) -> None:
    init_database(copy.dsn, wanted_places(copy.settings), claim=True)
    assert recover(copy.dsn).is_complete  # other copies committed beside the original's files
    copy.both("update events set v = v + 1 where id = 7 returning *")
    assert copy.fold().op_id is not None
    copy.assert_same_rows()


def test_another_cluster_is_another_database(copy: Spanning) -> None:
    """What a restored dump looks like: the same names, another number."""
    init_database(copy.dsn, wanted_places(copy.settings), claim=True)
    with closing(connect(copy.dsn, autocommit=True)) as conn:
        conn.execute("update thermocline.database_identity set system_identifier = system_identifier + 1")
    with pytest.raises(CopiedDatabase):
        copy.tier()
