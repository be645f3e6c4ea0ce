"""Two sessions of which one waits for the other."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from tests.twin import run


def race(waiter: psycopg.Connection[Any], statement: str, first: psycopg.Connection[Any]) -> str:
    """`waiter` runs the statement while `first` holds what it wrote; then `first` commits. The waiter's SQLSTATE."""
    states: list[str] = []
    thread = threading.Thread(target=lambda: states.append(run(waiter, statement).state))
    thread.start()
    thread.join(0.3)
    first.commit()
    thread.join(20)
    assert not thread.is_alive()
    return states[0]
