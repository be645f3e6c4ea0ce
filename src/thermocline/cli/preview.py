"""What a dry run would do, as tables."""

from __future__ import annotations

from collections.abc import Iterable

from thermocline.cli.output import print_lines, print_table
from thermocline.core.plan.preview import TierPreview, render_totals


def print_preview(preview: TierPreview) -> None:
    """Print the partitions that would move as a table, with what it does not say below it."""
    if preview.moves:
        headings = ["partition", "from", "to", "rows", "leaves the heap"]
        print_table(headings, ([p.name, p.lower, p.upper, p.count, p.leaves_heap] for p in preview.moves))
    print_lines(render_totals(preview))


def print_steps(heading: str, steps: Iterable[str]) -> None:
    """Print what would be done one after the other as a numbered table; nothing where there is no step."""
    if numbered := list(enumerate(steps, start=1)):
        print_table(["step", heading], numbered)
