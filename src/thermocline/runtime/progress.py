"""How long work reports its progress: a function that takes one sentence at a time."""

from __future__ import annotations

from collections.abc import Callable

ProgressReporter = Callable[[str], None]


def no_progress(_sentence: str) -> None:
    """Report nothing."""
