"""The error that a child told, read back from its log."""

from __future__ import annotations

from contextlib import redirect_stderr
from pathlib import Path

from thermocline.cli.output import print_error
from thermocline.errors import PortTaken, PostgresUnreachable, StackNotReady
from thermocline.stack.child_errors import read_child_error


def test_the_last_error_of_this_start_comes_back_with_its_class_sentence_and_hint(tmp_path: Path) -> None:
    log_path = tmp_path / "gateway.log"
    with log_path.open("w") as log, redirect_stderr(log):
        print_error(PortTaken("of an earlier start"))
    start = log_path.stat().st_size
    assert type(read_child_error("gateway", log_path, start=start)) is StackNotReady
    with log_path.open("a") as log, redirect_stderr(log):
        print_error(PostgresUnreachable("No route."))
        print("stopping", file=log)
    told = read_child_error("gateway", log_path, start=start)
    assert (type(told), str(told), told.hint) == (PostgresUnreachable, "gateway: No route.", PostgresUnreachable.hint)


def test_a_child_without_an_error_is_told_by_its_last_line_and_its_log(tmp_path: Path) -> None:
    log_path = tmp_path / "worker.log"
    log_path.write_text("Traceback\nKeyError: 5\n")
    told = read_child_error("worker", log_path)
    assert (str(told), told.hint) == ("worker did not become ready: KeyError: 5", f"Its log is {log_path}.")
    assert "ended without a message" in str(read_child_error("worker", tmp_path / "missing.log"))
