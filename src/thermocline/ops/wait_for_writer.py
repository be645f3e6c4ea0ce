"""Wait for the lock of a table's writer while tiering, folding or a maintenance pass holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from thermocline.errors import AnotherWriter
from thermocline.runtime.progress import ProgressReporter
from thermocline.runtime.retries import back_off, retry_on

_PATIENCE_SECONDS = 600.0
_TRIES_IN_SILENCE = 4


@contextmanager
def wait_for_writer(
    try_lock: Callable[[], AbstractContextManager[None]], report_progress: ProgressReporter
) -> Iterator[None]:
    """Hold the lock that `try_lock` takes or refuses by AnotherWriter; after ten minutes the refusal stands."""

    def note(attempt: int) -> None:
        if attempt == _TRIES_IN_SILENCE:
            report_progress("waiting for the table's writer")

    with ExitStack() as held:
        for attempt in retry_on(AnotherWriter, seconds=_PATIENCE_SECONDS, wait=back_off, before_wait=note):
            with attempt:
                held.enter_context(try_lock())
        yield
