"""The publish fence: whoever lost its claim on a table publishes nothing, although its session, its op and its lake
commit live on.

A writer loses the table's lock while its session lives when a connection pooler resets the session (DISCARD ALL).
Another writer then claims the table; the first one wakes up at a fault point, with its op still open in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from tests.faults.kills import EAGER_POLICY, assert_all_folded, assert_nothing_left_over, write_everywhere
from tests.faults.overtaken_writer import PublishingOp, claim_fence, overtake_at
from tests.twin import Spanning

from thermocline.errors import Fenced
from thermocline.maintain.run_pass import PassRequest, run_pass


def _compact(spanning: Spanning) -> object:
    request = PassRequest(operations=("compact",))  # another operation of the pass would claim the table again
    report = run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=request)
    if "took this table over" in report.sentence:
        raise Fenced(report.sentence)  # a pass carries on after an operation that failed, and reports it
    return report


VERBS = {
    "tier": PublishingOp("committed-noted", Spanning.tier, Spanning.tier),
    "fold": PublishingOp("fold-committed-noted", Spanning.fold, Spanning.fold),
    "retain": PublishingOp("retain-committed-noted", Spanning.tier, Spanning.tier),
    "compact": PublishingOp("compact-committed-noted", _compact, Spanning.tier),
}


def _prepare(verb: str, spanning: Spanning) -> None:
    """Give the op something to publish."""
    if verb == "tier":
        return
    spanning.tier()
    _write(verb, spanning, 1)
    if verb == "compact":
        spanning.seam.execute("update thermocline.tables set maintenance_policy = %s", [Jsonb(EAGER_POLICY)])
        spanning.fold()


def _write(verb: str, spanning: Spanning, round_number: int) -> None:
    if verb == "retain":  # no row below the line, and none so new that another partition moves
        spanning.both(f"update events set v = v + 1 where id between {240 + round_number} and 300 returning *")
        spanning.both(f"delete from events where id = {310 + round_number} returning id")
    else:
        write_everywhere(spanning, round_number)


def _published(spanning: Spanning) -> list[tuple[Any, ...]]:
    return spanning.query(
        "select c.t, c.s, c.r, c.epoch, array(select state from thermocline.partitions order by lo),"
        "       (select count(*) from thermocline.published), (select count(*) from thermocline.staged_files),"
        "       (select count(*) from thermocline_delta.public__events where _folded is not null)"
        "  from thermocline.cutline c"
    )


def _forget_expired(verb: str, spanning: Spanning) -> None:
    if verb == "retain":
        spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")


def _choices(verb: str) -> dict[str, str]:
    return {"lake_retention": "30d"} if verb == "retain" else {}


@pytest.mark.conforms("C-206")
@pytest.mark.parametrize("verb", VERBS)
def test_an_op_whose_table_was_claimed_by_another_publishes_nothing_and_is_published_by_the_next_writer(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    spanning = make_spanning(**_choices(verb))
    _prepare(verb, spanning)
    before: list[Any] = []

    def claim_and_look() -> None:
        claim_fence(spanning)
        before.append(_published(spanning))

    overtake_at(monkeypatch, VERBS[verb], claim_and_look)
    with pytest.raises(Fenced):
        VERBS[verb].run(spanning)
    assert before == [_published(spanning)]
    spanning.assert_same_rows()
    ((op_id,),) = spanning.query(
        "select op_id from thermocline.op_log where phase not in ('published', 'abandoned') and kind <> 'maintain'"
    )
    VERBS[verb].successor(spanning)
    assert spanning.query(f"select phase from thermocline.op_log where op_id = '{op_id}'") == [("published",)]
    _forget_expired(verb, spanning)
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert_all_folded(spanning)


@pytest.mark.conforms("C-206")
@pytest.mark.parametrize("verb", VERBS)
def test_an_op_that_its_successor_has_published_already_changes_nothing_any_more(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    spanning = make_spanning(**_choices(verb))
    _prepare(verb, spanning)
    after: list[Any] = []

    def overtake() -> None:
        VERBS[verb].successor(spanning)
        _forget_expired(verb, spanning)
        _write(verb, spanning, 2)
        after.append(_published(spanning))

    overtake_at(monkeypatch, VERBS[verb], overtake)
    with pytest.raises(Fenced):
        VERBS[verb].run(spanning)
    assert after == [_published(spanning)]
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert_all_folded(spanning)
    if verb in ("tier", "fold"):
        assert_nothing_left_over(spanning)
