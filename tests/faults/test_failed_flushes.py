"""A commit that arrived in the lake and then failed, as when the disk is full while it is flushed: the next writer
decides the op."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.truncation import truncate_spanning
from tests.twin import Spanning

from thermocline.errors import LakeFileNotWritten
from thermocline.lake.commit import compare_and_swap as commit
from thermocline.lake.commit.flush import flush_commit

VERBS: dict[str, Callable[[Spanning], object]] = {
    "tier": Spanning.tier,
    "fold": Spanning.fold,
    "truncate": truncate_spanning,
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_op_whose_commit_arrived_and_could_not_be_flushed_is_decided_by_the_next_writer(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    if verb != "tier":
        spanning.tier()
        spanning.both("update events set v = v + 1000 where id between 10 and 20")

    def fail(location: str) -> None:
        monkeypatch.setattr(commit, "flush_commit", flush_commit)
        raise LakeFileNotWritten(f"{location} could not be flushed: no space left on device.")

    monkeypatch.setattr(commit, "flush_commit", fail)
    with pytest.raises(LakeFileNotWritten):
        VERBS[verb](spanning)
    spanning.assert_same_rows()
    ((phase,),) = spanning.query(
        f"select phase from thermocline.op_log where kind = '{verb}' order by started_at desc limit 1"
    )
    assert phase not in ("published", "abandoned")
    spanning.tier()
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
