"""The check before a lake commit: files that hold other rows than Postgres gave are never committed; the next cycle
writes them anew.

`make test` damages files in a representative part of the ways, `make faults` in all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.faults.damaged_files import (
    DAMAGES,
    change_a_number,
    null_a_text,
    replace_a_row_by_its_neighbour,
    swap_a_column_of_two_rows,
    with_damage,
)
from tests.faults.kills import assert_all_folded, assert_nothing_left_over, write_everywhere
from tests.twin import Spanning

from thermocline.errors import ChecksumMismatch
from thermocline.spark.jobs import copy as copy_job
from thermocline.spark.jobs import fold as fold_job
from thermocline.spark.kernels.copy_partition import copy_range
from thermocline.spark.kernels.fold_range import fold_range

REPRESENTATIVE = (replace_a_row_by_its_neighbour, change_a_number, null_a_text, swap_a_column_of_two_rows)
KINDS = DAMAGES if os.environ.get("THERMOCLINE_TEST_ALL_FAULTS") else REPRESENTATIVE
FACTS = "select t, s, array(select phase from thermocline.op_log order by started_at) from thermocline.cutline"


@pytest.mark.conforms("C-059")
def test_files_with_other_rows_than_the_heap_are_not_committed(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((t, _, _),) = spanning.query(FACTS)
    for number, damage in enumerate(KINDS, 1):
        monkeypatch.setattr(copy_job, "copy_range", with_damage(copy_range, damage))
        with pytest.raises(ChecksumMismatch, match=r"Partition public\.events_2026_01"):
            spanning.tier()
        assert spanning.query(FACTS) == [(t, None, ["abandoned"] * number)], damage.__name__
    assert spanning.spark().sql("select count(*) from thermocline.public.events.snapshots").collect()[0][0] == 0
    spanning.assert_same_rows()
    monkeypatch.setattr(copy_job, "copy_range", copy_range)
    write_everywhere(spanning, 1)
    assert spanning.tier().moved
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-059")
@pytest.mark.parametrize("damage", [change_a_number])
def test_files_with_other_images_than_the_delta_are_not_committed(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, damage: Callable[[pa.Table], pa.Table]
) -> None:
    spanning.tier()
    write_everywhere(spanning, 1)
    before = spanning.query(FACTS)
    monkeypatch.setattr(fold_job, "fold_range", with_damage(fold_range, damage))
    with pytest.raises(ChecksumMismatch, match=r"public\.events"):
        spanning.fold()
    ((t, s, phases),) = before
    assert spanning.query(FACTS) == [(t, s, [*phases, "abandoned"])]
    spanning.assert_same_rows()
    monkeypatch.setattr(fold_job, "fold_range", fold_range)
    spanning.fold()
    spanning.assert_same_rows()
    assert_all_folded(spanning)
    assert_nothing_left_over(spanning)
