"""Tiering, folding, verifying and restoring tell how far they are, from nothing to all, in amounts of what was done."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.twin import Spanning

from thermocline.catalog import requests, tables
from thermocline.core.messages.progress import Progress
from thermocline.ops.register.unregistration import unregister
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect


def measures(told: Iterable[str | Progress], phase: str) -> list[Progress]:
    return [one for one in told if isinstance(one, Progress) and one.phase.startswith(phase)]


def check_complete(seen: list[Progress]) -> None:
    assert (seen[0].done, seen[-1].percent) == (0, 100)
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    assert len({one.started_at for one in seen}) == 1


def test_tier_fold_verify_and_restore_report_from_nothing_to_all(spanning: Spanning) -> None:
    told: list[str | Progress] = []
    spanning.tier(report_progress=told.append)
    copying = measures(told, "copying public.events")
    check_complete(copying)
    assert copying[-1].unit == "bytes"
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("update public_all.events set v = v + 1 where id between 1 and 20")
    report = spanning.fold(report_progress=told.append)
    folding = measures(told, "folding public.events")
    check_complete(folding)
    assert (folding[-1].total, folding[-1].unit) == (report.rows, "rows")
    assert verify(spanning.dsn, spanning.name, told.append).is_exact
    check_complete(measures(told, "reading public.events"))
    check_complete(measures(told, "comparing public.events"))
    unregister(spanning.dsn, spanning.name, settings=spanning.settings, restore_heap=True, report_progress=told.append)
    check_complete(measures(told, "restoring public.events"))


@pytest.mark.conforms("O-069")
def test_progress_of_a_request_is_stored_as_data_and_as_a_sentence(spanning: Spanning) -> None:
    told: list[str | Progress] = []
    spanning.tier(report_progress=told.append)
    seen = measures(told, "copying")[-1]
    with connect(spanning.dsn, autocommit=True) as conn:
        request = requests.file_request(conn, tables.find_table(conn, spanning.name).id, "tier")
        requests.note_progress(conn, request, seen)
        state = requests.read_request(conn, request)
        assert state is not None
        assert (state.measured, state.progress) == (seen, str(seen))
        requests.note_progress(conn, request, "sealing")
        state = requests.read_request(conn, request)
        assert state is not None
        assert (state.measured, state.progress) == (None, "sealing")
