"""The four modes, each declared once by its properties.

Code reads a property (`mode.drops_partitions`), never a name. To add a mode, declare it here and its routes in
`routing.py`; the reference tables `thermocline.modes` and `thermocline.routes` are filled from the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LakeWriter = Literal["tiering", "mirroring"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One mode. `name` is stored in the catalog and printed; the texts `heap_holds`, `lake_holds` and `reads_from`
    describe it to people."""

    name: str
    option: str
    """The value of `--mode`."""
    with_keep_heap: bool = False
    """`--keep-heap` selects it."""
    with_heap_retention: bool = False
    """`--heap-retention` selects it."""
    heap_holds: str
    lake_holds: str
    lake_writer: LakeWriter
    reads_from: str
    heap_is_complete: bool
    """The heap holds every row of the table, however old."""
    drops_partitions: bool
    """Partitions leave the heap once the lake holds their rows."""
    splits_reads_at_t: bool
    """The seam reads rows at or above T from the heap, and rows below T from the lake and the delta."""
    allows_lake_retention: bool
    """Old rows may be expired from the lake."""
    keeps_capture: bool
    """The capture trigger stays on tiered partitions for good, so that DML on the heap reaches the lake."""
    is_built: bool

    def __str__(self) -> str:
        return self.name

    @property
    def register_options(self) -> str:
        """The options of `thermocline register` that choose the mode."""
        keep_heap = " --keep-heap" if self.with_keep_heap else ""
        return f"--mode {self.option}{keep_heap}{' --heap-retention …' if self.with_heap_retention else ''}"


TIERED = Mode(
    name="tiered",
    option="tiered",
    heap_holds="rows at or above T",
    lake_holds="rows below T",
    lake_writer="tiering",
    reads_from="the heap at or above T, the lake and the delta below it",
    heap_is_complete=False,
    drops_partitions=True,
    splits_reads_at_t=True,
    allows_lake_retention=True,
    keeps_capture=False,
    is_built=True,
)
TIERED_KEEP_HEAP = Mode(
    name="tiered keep-heap",
    option="tiered",
    with_keep_heap=True,
    heap_holds="every row",
    lake_holds="a copy of rows below T",
    lake_writer="tiering",
    reads_from="the heap at or above T, the lake and the delta below it",
    heap_is_complete=True,
    drops_partitions=False,
    splits_reads_at_t=True,
    allows_lake_retention=False,
    keeps_capture=True,
    is_built=True,
)
MIRRORED = Mode(
    name="mirrored",
    option="mirrored",
    heap_holds="every row",
    lake_holds="a copy of every row, up to the frontier F",
    lake_writer="mirroring",
    reads_from="the heap; the lake through the seam",
    heap_is_complete=True,
    drops_partitions=False,
    splits_reads_at_t=False,
    allows_lake_retention=False,
    keeps_capture=False,
    is_built=False,
)
MIRRORED_HEAP_RETENTION = Mode(
    name="mirrored with heap retention",
    option="mirrored",
    with_heap_retention=True,
    heap_holds="rows at or above T, the window of heap retention",
    lake_holds="every row, up to the frontier F",
    lake_writer="mirroring",
    reads_from="the heap at or above T, the lake and the delta below it",
    heap_is_complete=False,
    drops_partitions=True,
    splits_reads_at_t=True,
    allows_lake_retention=False,
    keeps_capture=False,
    is_built=False,
)
MODES = (TIERED, TIERED_KEEP_HEAP, MIRRORED, MIRRORED_HEAP_RETENTION)
DEFAULT_MODE = TIERED
_BY_NAME = {mode.name: mode for mode in MODES}


def mode_named(name: str) -> Mode:
    """The mode that the catalog stores under this name."""
    return _BY_NAME[name]
