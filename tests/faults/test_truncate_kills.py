"""A truncation that is killed or overtaken at any step removes every row or none, and rows written since then stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.e2e.truncation import assert_lake_is_empty, truncate_both, truncate_spanning
from tests.faults.kills import kill_at, write_everywhere
from tests.faults.overtaken_writer import PublishingOp, claim_fence, overtake_at
from tests.twin import Spanning

from thermocline.errors import Fenced
from thermocline.runtime.postgres_server import PostgresServer

REPRESENTATIVE = ("truncate-committed",)
EVERY = ("truncate-intent", "truncate-emptied", "truncate-written", "truncate-committed", "truncate-committed-noted")
POINTS = EVERY if os.environ.get("THERMOCLINE_TEST_ALL_FAULTS") else REPRESENTATIVE


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    with make_clonable(postgres, template, tmp_path_factory.mktemp("truncate")) as made:
        yield made


@pytest.fixture
def spanning(tiered: ClonableTable) -> Iterator[Spanning]:
    with tiered.clone() as made:
        yield made


@pytest.mark.conforms("C-173", "C-209")
@pytest.mark.parametrize("point", POINTS)
def test_a_truncation_killed_before_its_publication_never_happened(spanning: Spanning, point: str) -> None:
    write_everywhere(spanning, 1)
    assert kill_at(spanning, point, "truncate_child") == -signal.SIGKILL
    spanning.assert_same_rows()
    write_everywhere(spanning, 2)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query("select phase from thermocline.op_log where kind = 'truncate'") == [("abandoned",)]
    truncate_both(spanning)
    assert_lake_is_empty(spanning)
    write_everywhere(spanning, 3)
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-209")
def test_a_truncation_killed_while_it_is_undone_is_undone_by_the_next(spanning: Spanning) -> None:
    assert kill_at(spanning, "truncate-committed", "truncate_child") == -signal.SIGKILL
    assert kill_at(spanning, "resolve-undone", "tier_child") == -signal.SIGKILL
    spanning.assert_same_rows()
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()
    assert spanning.query("select phase from thermocline.op_log where kind = 'truncate'") == [("abandoned",)]


def test_a_truncation_killed_after_its_publication_is_done(spanning: Spanning) -> None:
    assert kill_at(spanning, "truncate-published", "truncate_child") == -signal.SIGKILL
    spanning.twin.execute("delete from events")
    spanning.assert_same_rows()
    spanning.tier()
    assert_lake_is_empty(spanning)
    assert_nothing_left_over_but_snapshots(spanning)


@pytest.mark.conforms("C-206")
def test_a_truncation_that_was_overtaken_removes_nothing(spanning: Spanning, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = PublishingOp("truncate-intent", truncate_spanning, Spanning.tier)
    overtake_at(monkeypatch, verb, lambda: claim_fence(spanning))
    with pytest.raises(Fenced):
        truncate_spanning(spanning)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id % 7 = 0 returning id")
    spanning.fold()
    spanning.assert_same_rows()


def assert_nothing_left_over_but_snapshots(spanning: Spanning) -> None:
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
