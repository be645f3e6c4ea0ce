"""State of a lake session between statements: transaction with savepoints, cursors, prepared statements, portals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from thermocline.core.names import TableName
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.sessions.error_responses import SessionError
from thermocline.gateway.sql.syntax.statements import Statement

_ENTRY_BYTES = 500
_VALUE_BYTES = 50


class Sized(Protocol):
    """What knows how many bytes it takes."""

    @property
    def size_bytes(self) -> int: ...


S = TypeVar("S", bound=Sized)


class SizedByName(Generic[S]):
    """What a session keeps, by name, with the bytes of all of it."""

    def __init__(self) -> None:
        self._kept: dict[str, S] = {}
        self.held_bytes = 0

    def get(self, name: str) -> S | None:
        return self._kept.get(name)

    def put(self, name: str, kept: S) -> None:
        self.pop(name)
        self._kept[name] = kept
        self.held_bytes += kept.size_bytes

    def pop(self, name: str) -> S | None:
        found = self._kept.pop(name, None)
        if found is not None:
            self.held_bytes -= found.size_bytes
        return found

    def names(self) -> tuple[str, ...]:
        return tuple(self._kept)


@dataclass(slots=True)
class Cursor:
    """A declared cursor: how to open it, and where it stands."""

    open: Callable[[], ResultStream]
    stream: ResultStream
    size_bytes: int
    """What its statement and parameters take."""


@dataclass(slots=True)
class Portal:
    """A bound statement."""

    statement: Statement | None
    parameters: tuple[bytes | None, ...]
    oids: tuple[int, ...]
    stream: ResultStream | None = None
    formats: tuple[int, ...] = ()
    text: str = ""

    @property
    def size_bytes(self) -> int:
        """What its statement and parameters take, about."""
        return _ENTRY_BYTES + 2 * len(self.text) + sum(_VALUE_BYTES + len(value or b"") for value in self.parameters)


@dataclass(slots=True)
class PreparedStatement:
    """A parsed statement, not yet bound."""

    sql: str
    oids: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """What it takes, about."""
        return _ENTRY_BYTES + len(self.sql) + _VALUE_BYTES * len(self.oids)


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
