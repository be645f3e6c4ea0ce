"""The one renderer of progress: a bar on a terminal, plain lines elsewhere, nothing with --json. It renders the same
data whether this process works or a worker does."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from thermocline.cli.output import has_terminal, open_console, print_message
from thermocline.core.messages.progress import (
    Progress,
    render_amount,
    render_progress,
    render_rate,
    render_seconds,
)
from thermocline.runtime.progress import ProgressReporter, no_progress

if TYPE_CHECKING:
    from rich.progress import TaskID

_LINE_EVERY_SECONDS = 10.0


@contextmanager
def show_progress(*, silent: bool) -> Iterator[ProgressReporter]:
    """A reporter to give to long work; what it draws is gone when the work is over."""
    if silent:
        yield no_progress
    elif has_terminal(sys.stderr):
        bar = _Bar()
        try:
            yield bar.show
        finally:
            bar.close()
    else:
        yield _Lines().show


def show_downloads(*, silent: bool) -> None:
    """Show what is fetched from here on as the progress of this command; a bar that is full is gone."""
    from thermocline.runtime.artifacts import use_reporter

    use_reporter(no_progress if silent else _Bar().show if has_terminal(sys.stderr) else _Lines().show)


class _Lines:
    """One line for each sentence and each phase; a long phase has one more every ten seconds, and one at its end."""

    def __init__(self) -> None:
        self._phase, self._printed, self._is_over = "", 0.0, False

    def show(self, told: str | Progress) -> None:
        if isinstance(told, str):
            print_message(told)
            return
        was_over = self._is_over and told.phase == self._phase
        self._is_over = told.percent == 100
        is_due = told.phase != self._phase or time.monotonic() - self._printed >= _LINE_EVERY_SECONDS
        if not was_over and (is_due or self._is_over):
            self._phase, self._printed = told.phase, time.monotonic()
            print_message(render_progress(told))


class _Bar:
    """Sentences scroll; the phase under way is a bar below them."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}", markup=False),
            console=open_console(sys.stderr),
            transient=True,
        )
        self._phase, self._task, self._last = "", None, None

    _task: TaskID | None
    _last: Progress | None

    def show(self, told: str | Progress) -> None:
        if isinstance(told, str):
            self._bars.console.print(told, markup=False, highlight=False, soft_wrap=True)
            return
        if told.phase != self._phase:
            self._end_phase()
            self._phase, self._task = told.phase, self._bars.add_task(told.phase, total=told.total, told="")
            self._bars.start()
        assert self._task is not None
        self._last = told
        self._bars.update(self._task, completed=told.done, total=told.total, told=_render_figures(told))
        if told.percent == 100:
            self.close()

    def close(self) -> None:
        self._end_phase()
        self._bars.stop()

    def _end_phase(self) -> None:
        """Leave the line of the phase behind in place of its bar."""
        if self._task is not None and self._last is not None:
            self._bars.remove_task(self._task)
            self._bars.console.print(render_progress(self._last), markup=False, highlight=False, soft_wrap=True)
        self._task, self._last, self._phase = None, None, ""


def _render_figures(told: Progress) -> str:
    rate, left = told.rate_per_second, told.remaining_seconds
    parts = [f"{told.percent:>3}%"] if told.percent is not None else []
    parts.append(render_amount(told))
    parts += [render_rate(rate, told.unit)] if rate is not None else []
    parts += [f"{render_seconds(left)} left"] if left else []
    return "  ".join(parts)
