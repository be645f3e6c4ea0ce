"""What a verb that moves rows into the lake says of itself: the part that tiering and folding share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True, kw_only=True)
class MoveReport:
    """What one cycle did to one table; with `dry_run`, what it would do."""

    idle: ClassVar[str] = "nothing to do"

    table: str
    plan: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    deferred: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    snapshot: int | None = None
    op_id: str | None = None
    dry_run: bool = False

    def done(self) -> list[str]:
        """What was moved, made or dropped, a phrase each."""
        return []

    @property
    def sentence(self) -> str:
        phrases = list(self.plan) if self.dry_run else [*self.done(), *self.deferred, *self.notes] or [self.idle]
        return f"{self.table}: {'; '.join(phrases)}."
