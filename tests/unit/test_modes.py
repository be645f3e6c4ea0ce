"""The four modes: each is declared once, and options of `register` choose exactly one."""

from __future__ import annotations

import pytest

from thermocline.core.modes.mode import MODES, TIERED, TIERED_KEEP_HEAP, Mode, mode_named
from thermocline.core.modes.registration_options import choose_mode, render_mode_help
from thermocline.core.modes.routing import ROUTES, Operation, Path, Side
from thermocline.errors import ModeNotImplemented


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_mode_is_found_by_the_name_the_catalog_stores(mode: Mode) -> None:
    assert mode_named(mode.name) is mode


def test_each_combination_of_options_chooses_one_mode() -> None:
    chosen = {(mode.option, mode.with_keep_heap, mode.with_heap_retention) for mode in MODES}
    assert len(chosen) == len(MODES)
    assert choose_mode("tiered") is TIERED
    assert choose_mode("tiered", keep_heap=True) is TIERED_KEEP_HEAP
    assert TIERED_KEEP_HEAP.register_options == "--mode tiered --keep-heap"


@pytest.mark.parametrize("heap_retention", [None, "30d"])
def test_a_mode_that_is_not_built_is_refused(heap_retention: str | None) -> None:
    with pytest.raises(ModeNotImplemented, match="Mode mirrored is not built yet"):
        choose_mode("mirrored", heap_retention=heap_retention)
    assert render_mode_help() == "tiered; mirrored is not built yet."


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_properties_of_a_mode_agree_with_each_other_and_with_its_routes(mode: Mode) -> None:
    assert mode.drops_partitions != mode.heap_is_complete
    assert not (mode.heap_is_complete and mode.allows_lake_retention)
    reads_lake = ROUTES[Operation.READ, mode, Side.HISTORICAL].path is Path.LAKE_AND_DELTA
    assert reads_lake == mode.splits_reads_at_t
    captured = ROUTES[Operation.UPDATE, mode, Side.HISTORICAL].path is Path.HEAP_AND_DELTA
    assert captured == mode.keeps_capture
