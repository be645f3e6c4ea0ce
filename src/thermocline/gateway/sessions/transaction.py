"""State of a lake session between statements: transaction with savepoints, cursors, prepared statements, portals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from thermocline.core.names import TableName
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.sessions.error_responses import SessionError
from thermocline.gateway.sql.syntax.statements import Statement


@dataclass(slots=True)
class Cursor:
    """A declared cursor: how to open it, and where it stands."""

    open: Callable[[], ResultStream]
    stream: ResultStream


@dataclass(slots=True)
class Portal:
    """A bound statement."""

    statement: Statement | None
    parameters: tuple[bytes | None, ...]
    oids: tuple[int, ...]
    stream: ResultStream | None = None
    formats: tuple[int, ...] = ()
    text: str = ""


@dataclass(slots=True)
class PreparedStatement:
    """A parsed statement, not yet bound."""

    sql: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Transaction:
    """Where the session's transaction stands. `analyzed` are the tables ANALYZE asked about in it."""

    status: Literal["I", "T", "E"] = "I"
    savepoints: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    analyzed: set[TableName] = field(default_factory=set)

    def save(self, name: str, cursors: frozenset[str]) -> None:
        """Sets a savepoint; cursors that exist now survive a rollback to it."""
        self._check_begun()
        self.savepoints.append((name, cursors))

    def release(self, name: str) -> None:
        """Forgets a savepoint and those after it."""
        del self.savepoints[self._place(name) :]

    def roll_back_to(self, name: str) -> frozenset[str]:
        """Goes back to a savepoint; returns the cursors that survive."""
        at = self._place(name)
        del self.savepoints[at + 1 :]
        self.status = "T"
        return self.savepoints[at][1]

    def _place(self, name: str) -> int:
        self._check_begun()
        names = [known for known, _ in self.savepoints]
        if name not in names:
            raise SessionError("3B001", f'savepoint "{name}" does not exist')
        return len(names) - 1 - names[::-1].index(name)

    def _check_begun(self) -> None:
        if self.status == "I":
            raise SessionError("25P01", "savepoints can only be used in transaction blocks")
