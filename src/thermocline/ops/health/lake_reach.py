"""Whether a gateway can read the lake: some current metadata files, opened in the background of a probe.

The gateway may run where a warehouse is not mounted or its keys are refused. A single lake whose file is gone keeps no
gateway from serving the others: it is not ready when none of the files can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

import psycopg

from thermocline.errors import LakeFileUnreadable, PostgresUnreachable
from thermocline.lake.read.storage import LakeReader
from thermocline.ops.health.bounded_look import BoundedLook

_FRESH_SECONDS, _WAIT_SECONDS = 10.0, 2.0


class LakeReach:
    """Asked by probes, from several threads; looks again when the last look is older than a few seconds."""

    def __init__(self, read_locations: Callable[[], Sequence[str]]) -> None:
        self._read_locations = read_locations
        self._look: BoundedLook[tuple[str | None]] = BoundedLook(self._try)
        self._started_at = float("-inf")

    def why_not(self) -> str | None:
        """Why no lake can be read; None when one can, or when there is none."""
        if time.monotonic() - self._started_at > _FRESH_SECONDS:
            self._look.start()
            self._started_at = time.monotonic()
        seen = self._look.finish(time.monotonic() + _WAIT_SECONDS)
        return f"The lake has not answered for {self._look.silent_seconds:.0f} seconds." if seen is None else seen[0]

    def _try(self) -> tuple[str | None]:
        reason = None
        try:
            locations = self._read_locations()
        except (PostgresUnreachable, psycopg.Error):
            return (None,)  # another reason not to be ready, which is reported as such
        for location in locations:
            try:
                with closing(LakeReader().new_input(location).open()) as stream:
                    stream.read(1)
                return (None,)
            except (LakeFileUnreadable, OSError) as problem:
                reason = reason or str(problem)
        return (reason,)
