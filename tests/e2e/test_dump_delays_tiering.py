"""While pg_dump runs T stays, and readers of the seam do not wait for the cycle that would raise it."""

from __future__ import annotations

import pytest
from tests.twin import Spanning

from thermocline.errors import LockNotGranted
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker


def test_a_lock_on_the_lake_arms_parent_is_not_waited_for_while_readers_of_the_seam_wait(spanning: Spanning) -> None:
    dump = spanning.session()
    ((table_id,),) = spanning.query("select id from thermocline.tables")
    dump.execute(f"lock table thermocline_lake.range_{table_id} in access share mode".encode())
    patient = spanning.settings.model_copy(update={"lock_timeout_ms": 600_000})
    with pytest.raises(LockNotGranted, match="as pg_dump does until it ends"):
        spanning.tier(settings=patient)
    spanning.assert_same_rows()
    dump.commit()
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()


@pytest.mark.parametrize(("late_seconds", "failing"), [(900.0, False), (1e-9, True)], ids=["a while", "for too long"])
def test_a_table_that_others_hold_waits_and_fails_only_when_that_lasts(
    spanning: Spanning, late_seconds: float, failing: bool
) -> None:
    dump = spanning.session()
    ((table_id,),) = spanning.query("select id from thermocline.tables")
    dump.execute(f"lock table thermocline_lake.range_{table_id} in access share mode".encode())
    worker = Worker(spanning.dsn, spanning.settings.model_copy(update={"cycle_late_seconds": late_seconds}))
    cycle = "select sentence, problem_code, cardinality(deferred), failing_since is not null from thermocline.cycles"
    with connect(spanning.dsn, autocommit=True) as conn:
        succeeded = [worker.run_cycle(conn), worker.run_cycle(conn)]
        assert succeeded[-1] is not failing
        ((said, code, deferred, is_failing),) = spanning.query(cycle)
        assert (code, deferred, is_failing) == (("TC401", 0, True) if failing else (None, 1, False)), said
        dump.commit()
        assert worker.run_cycle(conn)
    assert spanning.query("select failing_since from thermocline.cycles") == [(None,)]
    spanning.assert_same_rows()
