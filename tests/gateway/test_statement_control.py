"""Sessions that end while their work runs in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from thermocline.gateway.sessions.statement_control import StatementControl


class _Work:
    """Work that ends at its second interrupt, as one that is not yet interruptible does at the first."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.is_ended = False
        self._interrupts = threading.Semaphore(0)

    def run(self) -> None:
        self.begun.set()
        for _ in range(2):
            assert self._interrupts.acquire(timeout=20)
        self.is_ended = True

    def interrupt(self) -> None:
        self._interrupts.release()


async def _in_thread(work: Callable[[], object]) -> object:
    return await asyncio.get_running_loop().run_in_executor(None, work)


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_session_that_is_told_to_end_interrupts_its_work_and_waits_for_it(cancels: int) -> None:
    work = _Work()

    async def converse() -> bool:
        control = StatementControl(_in_thread, timeout_seconds=0, slow_seconds=0)
        session = asyncio.create_task(control.run_blocking(work.run, work))
        while not work.begun.is_set():
            await asyncio.sleep(0.01)
        for _ in range(cancels):
            session.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await session
        return work.is_ended

    assert asyncio.run(converse())


def test_cleanup_runs_to_its_end_when_its_session_is_told_to_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    def clean() -> None:
        begun.set()
        time.sleep(0.3)
        ended.set()

    async def converse() -> bool:
        control = StatementControl(_in_thread, timeout_seconds=0, slow_seconds=0)
        session = asyncio.create_task(control.run_cleanup(clean))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        session.cancel()
        with pytest.raises(asyncio.CancelledError):
            await session
        return ended.is_set()

    assert asyncio.run(converse())
