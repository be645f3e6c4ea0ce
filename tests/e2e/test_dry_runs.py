"""Dry runs of `register`, `unregister` and `truncate` are tables of what would be made, removed or lost."""

from __future__ import annotations

import pytest
from tests.commands import CommandResult, RunCommand, run_command
from tests.e2e.adoption import unregister_spanning
from tests.twin import Spanning


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, spanning: Spanning) -> RunCommand:
    for key in ("dsn", "warehouse", "gateway_listen", "dir"):
        monkeypatch.setenv(f"THERMOCLINE_{key.upper()}", str(getattr(spanning.settings, key)))

    def run(*arguments: str) -> CommandResult:
        return run_command(capsys, *arguments, "--dry-run")

    return run


@pytest.mark.conforms("O-014")
def test_register_shows_what_it_would_make_and_what_would_move(spanning: Spanning, command: RunCommand) -> None:
    unregister_spanning(spanning)
    done = command("register", "public.events", "--tiering-lag", "30d")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split(maxsplit=1) == ["step", "would be made for public.events"]
    assert [line.split(maxsplit=2)[:2] for line in lines[1:7]] == [
        ["1", "lake"],
        ["2", "delta"],
        ["3", "spill"],
        ["4", "foreign"],
        ["5", "seam"],
        ["6", "cut-line"],
    ]
    assert lines[7] == "public.events would be registered; its seam is public_all.events"
    assert [line.split()[-1] for line in lines if line.startswith("public.events_2026")] == ["cycle", "cycle"]
    assert spanning.query("select count(*) from thermocline.tables") == [(0,)]


@pytest.mark.conforms("C-201")
def test_unregister_shows_what_it_would_remove_and_where_rows_would_be(spanning: Spanning, command: RunCommand) -> None:
    spanning.tier()
    kept = command("unregister", "public.events")
    assert kept.out.splitlines()[0].split(maxsplit=1) == ["step", "would be removed from public.events"]
    assert kept.line("   1") == ["1", "seam", "public_all.events"]
    assert "359 of the 359 rows in the lake are nowhere else" in kept.out
    assert "the lake would be kept in " in kept.out
    restored = command("unregister", "public.events", "--restore-heap")
    assert "359 rows that only the lake holds would be in the heap again" in restored.out
    assert "every row in it" in command("unregister", "public.events", "--drop-lake").out
    spanning.assert_same_rows()


@pytest.mark.conforms("C-201")
def test_a_dry_run_of_unregister_refuses_what_the_command_refuses(spanning: Spanning, command: RunCommand) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id = 17")
    refused = command("unregister", "public.events")
    assert (refused.code, refused.out) == (3, "")
    assert "1 corrections that are not in the lake yet" in refused.err
    assert command("unregister", "public.events", "--fold").code == 0
    assert command("unregister", "public.events", "--restore-heap").code == 0
    spanning.assert_same_rows()


@pytest.mark.conforms("O-006")
def test_truncate_shows_what_each_tier_would_lose(spanning: Spanning, command: RunCommand) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 4")
    done = command("truncate", "public.events")
    assert done.out.splitlines()[0].split() == ["tier", "rows", "that", "would", "go", "files"]
    assert done.line("heap")[-2:] == ["44", "—"]
    assert done.line("corrections")[-2:] == ["3", "—"]
    assert done.line("lake")[:2] == ["lake", "359"]
    assert done.out.splitlines()[-1].startswith("public.events would lose 44 rows of the heap, 3 corrections,")
    spanning.assert_same_rows()
