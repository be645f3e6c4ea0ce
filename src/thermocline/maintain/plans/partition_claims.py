"""Lock the partitions of a concurrent pass: two compactions never rewrite one partition at once.

A pass over a whole table has the table for itself and needs no claims. A claim is a lock of the pass's connection, so a
killed pass frees its partitions at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from thermocline.catalog.maintenance.passes import partition_lock
from thermocline.core.lake_file import Values
from thermocline.core.maintenance.bins import CompactionPlan, render_group
from thermocline.maintain.context import PassContext
from thermocline.maintain.plans.safety import owner_of

BUSY = "another compaction works on this partition"


@dataclass(slots=True)
class Claims:
    """The claimed partitions of one pass. A partition that another pass held is not tried again by this pass."""

    context: PassContext
    stack: ExitStack
    held: set[tuple[int, Values]] = field(default_factory=set)
    busy: set[tuple[int, Values]] = field(default_factory=set)

    def take(self, plan: CompactionPlan) -> bool:
        """Claim the partitions of the plan that were not tried yet. True when one was acquired: then the table must be
        observed again."""
        before = len(self.held)
        for group in {made.group for made in plan.bins} - self.held - self.busy:
            lock = partition_lock(self.context.conn, owner_of(self.context), f"{group!r}")
            (self.held if self.stack.enter_context(lock) else self.busy).add(group)
        return len(self.held) > before

    def within(self, plan: CompactionPlan) -> CompactionPlan:
        """The plan without the partitions that others hold; they are named in its notes."""
        others = sorted(
            f"{render_group(plan.seen, group)}: {BUSY}" for group in {made.group for made in plan.bins} - self.held
        )
        bins = tuple(made for made in plan.bins if made.group in self.held)
        return replace(
            plan, bins=bins, details=(*others, *plan.details), sentence=plan.sentence if bins or not others else BUSY
        )


@contextmanager
def partition_claims(context: PassContext) -> Iterator[Claims | None]:
    """The claims of a pass, released at its end; None where the pass has locked the whole table."""
    if not context.may_run_concurrently or context.dry_run:
        yield None
        return
    with ExitStack() as stack:
        yield Claims(context, stack)
