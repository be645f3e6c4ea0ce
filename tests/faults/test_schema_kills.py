"""A cycle that follows a change of columns, killed between its steps: nothing is lost, and the next one finishes it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.faults.kills import kill_at
from tests.faults.points import SCHEMA
from tests.twin import Spanning

from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.postgres_server import PostgresServer

UNWATCHED = "alter event trigger thermocline_alter_start disable; alter event trigger thermocline_alter_end disable"


@pytest.fixture
def spanning(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    made: ClonableTable
    with make_clonable(postgres, template, tmp_path_factory.mktemp("lake")) as made, made.clone() as clone:
        yield clone


@pytest.mark.conforms("C-161", "C-164")
@pytest.mark.parametrize("point", SCHEMA)
def test_following_killed_at_any_step_is_finished_by_the_next_cycle(spanning: Spanning, point: str) -> None:
    spanning.seam.execute(UNWATCHED.encode())
    spanning.alter("add column extra integer default 4")
    spanning.alter("rename column note to remark")
    assert kill_at(spanning, point) == -signal.SIGKILL
    spanning.assert_same_rows()
    spanning.both("update events set extra = 5, remark = 'killed' where id in (5, 390) returning *")
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert not verify(spanning.dsn, spanning.name).problems
    assert spanning.query("select lake_behind from thermocline.tables") == [(False,)]
