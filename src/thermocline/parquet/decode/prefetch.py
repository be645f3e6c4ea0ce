"""Prefetch a generator in a thread, bounded by bytes.

Arrow and numpy release Python's lock while they decode, sort and encode, so the two halves of a bin run on two cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from threading import Condition, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")


def prefetch(
    source: Generator[Item, None, None], size_of: Callable[[Item], int], most_bytes: int
) -> Generator[Item, None, None]:
    """The items of `source`, in order, produced by a thread; at most this many bytes, or one item, are buffered.

    An exception of the source is raised here. A caller that may stop early closes the generator, which ends the thread.
    """
    line: _BoundedQueue[Item] = _BoundedQueue(most_bytes)
    thread = Thread(target=line.fill, args=(source, size_of), name="work ahead", daemon=True)
    thread.start()
    try:
        yield from line.items()
    finally:
        line.stop()
        thread.join()


class _BoundedQueue(Generic[Item]):
    """Buffered items with their sizes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._changed = Condition()
        self._stopped = self._ended = False
        self._problem: BaseException | None = None

    def fill(self, source: Generator[Item, None, None], size_of: Callable[[Item], int]) -> None:
        try:
            for item in source:
                if not self._put(item, size_of(item)):
                    break
        except BaseException as problem:
            self._problem = problem
        finally:
            source.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, item: Item, size: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._waiting or self._bytes + size <= self._most_bytes)
            if not self._stopped:
                self._waiting.append((item, size))
                self._bytes += size
                self._changed.notify_all()
            return not self._stopped

    def items(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    break
                item, size = self._waiting.popleft()
                self._bytes -= size
                self._changed.notify_all()
            yield item
            del item
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
