"""What a pass must not touch: computed once, carried in the plan, checked again at commit.

Invariant: a snapshot in `protected` never expires, and a file that a protected snapshot, a ref, a protected metadata
file or the journal names is never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Snapshots with the reason each is protected for, metadata files that readers name, and files the journal
    knows."""

    protected: Mapping[int, str] = field(default_factory=dict)
    """Snapshot id → who needs it: `published`, `reader 4711`, `pin 7 of analyst`, `operation <uuid>`."""
    metadata_files: frozenset[str] = frozenset()
    staged_files: frozenset[str] = frozenset()
    floor_snapshot: int | None = None
    """The oldest protected snapshot, and who holds it."""
    floor_holder: str | None = None
