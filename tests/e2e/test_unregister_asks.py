"""`unregister` says how many rows stay in the lake and leave the table, and asks a person."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.twin import Spanning

REGISTERED = "select count(*) from thermocline.tables"
LEAVING = (
    "359 of the 359 rows in the lake are nowhere else: they stay there and leave public.events; "
    "`register --adopt-lake` brings them back"
)


def unregister_at_terminal(spanning: Spanning, answer: str) -> subprocess.CompletedProcess[str]:
    """The command with a terminal as its input, where somebody types the answer."""
    person, terminal = pty.openpty()
    try:
        os.write(person, f"{answer}\n".encode())
        command = [sys.executable, "-m", "thermocline", "unregister", "public.events", "--dsn", spanning.dsn]
        return subprocess.run(command, stdin=terminal, capture_output=True, text=True, check=False, timeout=120)
    finally:
        os.close(person)
        os.close(terminal)


@pytest.mark.conforms("C-201", "C-221")
def test_a_person_is_told_what_leaves_and_asked(spanning: Spanning) -> None:
    spanning.tier()
    refused = unregister_at_terminal(spanning, "n")
    assert (refused.returncode, LEAVING in refused.stderr) == (3, True), refused.stderr
    assert "public.events stays registered" in refused.stderr
    assert spanning.query(REGISTERED) == [(1,)]
    spanning.assert_same_rows()
    agreed = unregister_at_terminal(spanning, "y")
    assert (agreed.returncode, LEAVING in agreed.stderr) == (0, True), agreed.stderr
    assert spanning.query(REGISTERED) == [(0,)]
    left = spanning.seam.execute("select count(*) from public.events").fetchone()
    assert left == (400 - 359,)


@pytest.mark.conforms("C-201")
@pytest.mark.parametrize(
    ("choices", "leaving"),
    [({}, 357), ({"reclaim_lag": "9d"}, 0), ({"keep_heap": True}, 0)],
    ids=["dropped", "still in the heap", "keep-heap"],
)
def test_rows_that_the_heap_has_too_do_not_leave(
    make_spanning: Callable[..., Spanning], choices: dict[str, object], leaving: int
) -> None:
    spanning = make_spanning(**choices)
    spanning.tier()
    spanning.both("delete from events where id in (3, 130)")
    spanning.fold()
    command = [sys.executable, "-m", "thermocline", "unregister", "public.events", "--dry-run", "--json"]
    done = subprocess.run([*command, "--dsn", spanning.dsn], capture_output=True, text=True, check=True, timeout=120)
    assert f'"rows_in_lake": 357,\n  "rows_leaving": {leaving}\n' in done.stdout
