"""The declared path of every operation, in every mode, on either side of the cut-line.

Pure data. The reference table `thermocline.routes` is filled from it, `thermocline explain` and the SQL function
`thermocline.explain` print its sentences, and the routing matrix test runs each cell that is built and checks where the
row went.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from thermocline.core.modes.mode import (
    MIRRORED,
    MIRRORED_HEAP_RETENTION,
    MODES,
    TIERED,
    TIERED_KEEP_HEAP,
    Mode,
)


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    BULK_LOAD = "bulk load"
    LABELLED_BATCH = "labelled batch"
    READ = "read"


class Side(StrEnum):
    """Which side of T a row lies on; a fully mirrored table has both on the heap."""

    RECENT = "recent"
    HISTORICAL = "historical"


class Path(StrEnum):
    HEAP = "heap"
    SPILL = "heap's spill and delta"
    DELTA = "delta"
    HEAP_AND_DELTA = "heap and delta"
    LAKE = "lake commit"
    LAKE_AND_DELTA = "lake and delta"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a row goes; `item` is the id of the contract item that says so."""

    path: Path
    sentence: str
    item: str


Triple = tuple[Operation, Mode, Side]

_HEAP_ONLY = {
    Operation.INSERT: Route(
        path=Path.HEAP, sentence="a plain insert into the heap; the delta is not touched", item="C-083"
    ),
    Operation.UPDATE: Route(
        path=Path.HEAP, sentence="changed in place in the heap; the delta is not touched", item="C-084"
    ),
    Operation.DELETE: Route(path=Path.HEAP, sentence="deleted from the heap; the delta is not touched", item="C-085"),
}
_BELOW_T = {
    Operation.INSERT: Route(
        path=Path.SPILL,
        sentence="into the heap's spill, where every constraint is checked, and from there into the delta",
        item="C-086",
    ),
    Operation.UPDATE: Route(
        path=Path.SPILL,
        sentence="the new image goes through the spill into the delta and hides the lake's row",
        item="C-090",
    ),
    Operation.DELETE: Route(path=Path.DELTA, sentence="a tombstone in the delta hides the lake's row", item="C-094"),
    Operation.BULK_LOAD: Route(path=Path.LAKE, sentence="`thermocline ingest`: one lake commit, by key", item="C-103"),
    Operation.LABELLED_BATCH: Route(
        path=Path.DELTA, sentence="into the delta, or staged for a lake commit above the spool threshold", item="C-107"
    ),
    Operation.READ: Route(path=Path.LAKE_AND_DELTA, sentence="the lake at S, corrected by the delta", item="C-111"),
}
_CAPTURED = "the trigger on the partition carries it into the delta"


def _tiered() -> dict[tuple[Operation, Side], Route]:
    routes = {(operation, Side.RECENT): route for operation, route in _HEAP_ONLY.items()}
    routes |= {(operation, Side.HISTORICAL): route for operation, route in _BELOW_T.items()}
    routes[Operation.BULK_LOAD, Side.RECENT] = Route(
        path=Path.HEAP, sentence="COPY into the heap; `thermocline ingest` refuses rows at or above T", item="C-103"
    )
    routes[Operation.LABELLED_BATCH, Side.RECENT] = Route(path=Path.HEAP, sentence="upserted in the heap", item="C-107")
    routes[Operation.READ, Side.RECENT] = Route(path=Path.HEAP, sentence="the heap", item="C-111")
    return routes


def _keep_heap() -> dict[tuple[Operation, Side], Route]:
    routes = _tiered()
    for operation, item, done in (
        (Operation.INSERT, "C-087", "inserted into the heap"),
        (Operation.UPDATE, "C-091", "changed in the heap"),
        (Operation.DELETE, "C-095", "deleted from the heap"),
    ):
        routes[operation, Side.HISTORICAL] = Route(path=Path.HEAP_AND_DELTA, sentence=f"{done}; {_CAPTURED}", item=item)
    routes[Operation.BULK_LOAD, Side.RECENT] = Route(path=Path.HEAP, sentence="COPY into the heap", item="C-104")
    routes[Operation.BULK_LOAD, Side.HISTORICAL] = Route(
        path=Path.HEAP_AND_DELTA,
        sentence=f"COPY into the heap; {_CAPTURED}; `thermocline ingest` is refused",
        item="C-104",
    )
    routes[Operation.LABELLED_BATCH, Side.RECENT] = Route(path=Path.HEAP, sentence="upserted in the heap", item="C-108")
    routes[Operation.LABELLED_BATCH, Side.HISTORICAL] = Route(
        path=Path.HEAP_AND_DELTA, sentence="into the heap and the delta in one transaction", item="C-108"
    )
    return routes


def _mirrored() -> dict[tuple[Operation, Side], Route]:
    done = {
        Operation.INSERT: ("inserted into", "C-088"),
        Operation.UPDATE: ("changed in", "C-092"),
        Operation.DELETE: ("deleted from", "C-096"),
    }
    routes = {
        (operation, side): Route(path=Path.HEAP, sentence=f"{verb} the heap; the lake trails", item=item)
        for operation, (verb, item) in done.items()
        for side in Side
    }
    for side in Side:
        routes[Operation.BULK_LOAD, side] = Route(
            path=Path.HEAP,
            sentence="COPY into the heap; `thermocline ingest` is refused, because the heap is the source of truth",
            item="C-105",
        )
        routes[Operation.LABELLED_BATCH, side] = Route(path=Path.HEAP, sentence="upserted in the heap", item="C-109")
        routes[Operation.READ, side] = Route(
            path=Path.HEAP, sentence="the heap; the lake up to F through the seam", item="C-112"
        )
    return routes


def _heap_retention() -> dict[tuple[Operation, Side], Route]:
    routes = _tiered()
    for operation, item in (
        (Operation.INSERT, "C-089"),
        (Operation.UPDATE, "C-093"),
        (Operation.DELETE, "C-097"),
        (Operation.BULK_LOAD, "C-106"),
        (Operation.LABELLED_BATCH, "C-110"),
        (Operation.READ, "C-113"),
    ):
        below = routes[operation, Side.HISTORICAL]
        routes[operation, Side.HISTORICAL] = Route(path=below.path, sentence=below.sentence, item=item)
    return routes


ROUTES: dict[Triple, Route] = {
    (operation, mode, side): route
    for mode, cells in (
        (TIERED, _tiered()),
        (TIERED_KEEP_HEAP, _keep_heap()),
        (MIRRORED, _mirrored()),
        (MIRRORED_HEAP_RETENTION, _heap_retention()),
    )
    for (operation, side), route in cells.items()
}


def missing_triples() -> tuple[Triple, ...]:
    """Triples without a declared path."""
    wanted = ((operation, mode, side) for operation in Operation for mode in MODES for side in Side)
    return tuple(triple for triple in wanted if triple not in ROUTES)
