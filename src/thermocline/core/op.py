"""The kinds of ops that change a lake: what each publishes, and how an op is resolved after its process died.

Pure. `ops/runner.py` runs every op by the same protocol; what differs between kinds is declared here and read by the
runner, by the journal's publication and by the resolution of unfinished ops (`ops/resolve.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = ("intent", "written", "committed", "committed-noted", "published")
"""The steps of the protocol; a process may be killed after each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKind:
    """A kind of op; without any of these properties it replaces files and changes no row."""

    name: str
    moves_t: bool = False
    """The cut-line passes partitions: they are held while it is published, and captures of earlier seals are
    cleared."""
    folds: bool = False
    """Corrections move into the lake: writers compare the image they read with the fold's transaction."""
    expires: bool = False
    """Rows below the retention line go: corrections and spill rows below it are purged in the same transaction."""
    is_undone_after_a_crash: bool = False
    """Committed but not published, it is rolled back in the lake instead of being published later."""

    def point(self, step: str) -> str:
        """The name of the fault point after a step."""
        return step if self is TIER else f"{self.name}-{step}"


TIER = OpKind(name="tier", moves_t=True)
FOLD = OpKind(name="fold", folds=True)
RETAIN = OpKind(name="retain", expires=True)
TRUNCATE = OpKind(name="truncate", is_undone_after_a_crash=True)
ADOPT = OpKind(name="adopt")
_KINDS = {kind.name: kind for kind in (TIER, FOLD, RETAIN, TRUNCATE, ADOPT)}


def kind_named(name: str) -> OpKind:
    """The kind of an op in the journal; rewrites of maintenance are named after their operation."""
    return _KINDS.get(name) or OpKind(name=name)
