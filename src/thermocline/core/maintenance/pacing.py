"""How fast a pass may read and write: budgets, and the back-off when queries get slow.

Pure: the clock is an argument. A budget is kept by sleeping after each piece of I/O until the pieces so far fit into
it, so no burst is ever allowed that a later pause would have to make good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from thermocline.core.policy.policy import Policy

MB = 1_048_576
_SOONEST_MS, _IDLE = 1_000, 10
SLOWEST = 1 / 8
"""Below this share of its rate a pass pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Limits in bytes and operations per second, 0 for none; `duty` is the share of time that may be spent working."""

    read_bytes_per_s: float = 0
    write_bytes_per_s: float = 0
    iops: float = 0
    duty: float = 1.0
    until: float | None = None
    """The second since 1970 from which on no further bin is begun."""

    def shared_by(self, tasks: int) -> Pace:
        """What each of so many tasks may take, so that all together keep the limits."""
        parts = max(tasks, 1)
        return replace(
            self,
            read_bytes_per_s=self.read_bytes_per_s / parts,
            write_bytes_per_s=self.write_bytes_per_s / parts,
            iops=self.iops / parts,
        )

    def slowed(self, factor: float) -> Pace:
        return self if factor >= 1 else replace(self, duty=self.duty * factor)

    def is_over(self, now: float) -> bool:
        """Whether a task begins no further bin."""
        return self.until is not None and now >= self.until


UNPACED = Pace()


def plan_pace(policy: Policy, measured_bytes_per_s: float = 0) -> Pace:
    """The limits of a worker: the absolute ones, and a share of the store's bandwidth, as declared, else as
    measured."""
    bandwidth = policy.bandwidth_mb_per_s * MB or measured_bytes_per_s
    limits = [limit for limit in (policy.max_read_mb_per_s * MB, bandwidth * policy.bandwidth_share) if limit > 0]
    share_only = policy.bandwidth_share < 1
    read = min(limits) if limits and (share_only or policy.max_read_mb_per_s) else 0
    return Pace(read_bytes_per_s=read, write_bytes_per_s=policy.max_write_mb_per_s * MB, iops=policy.max_iops)


def next_pass_after_ms(policy: Policy, found_work: bool) -> int | None:
    """How long after a pass the next one is due, for a table that is maintained continuously; None: as the worker's
    interval says.

    Such a table is looked at again at once while there is work, and less often while there is none: each pass leaves a
    record.
    """
    if policy.pass_interval_ms < 0:
        return None
    return max(policy.pass_interval_ms, _SOONEST_MS) * (1 if found_work else _IDLE)


@dataclass(slots=True)
class Budget:
    """One limited quantity. `last` is when its last use was over: what is used next is spread over the time since
    then."""

    per_second: float
    last: float

    def due(self, amount: float) -> float:
        """When an amount that was just used fits the rate."""
        return self.last + amount / self.per_second if self.per_second > 0 and amount > 0 else self.last


@dataclass(slots=True)
class PaceKeeper:
    """Keeps one task to its pace. `started` is the moment the first piece of work began."""

    pace: Pace
    started: float
    _budgets: tuple[Budget, ...] = field(init=False)
    _woke: float = field(init=False)

    def __post_init__(self) -> None:
        rates = (self.pace.read_bytes_per_s, self.pace.write_bytes_per_s, self.pace.iops)
        self._budgets = tuple(Budget(rate, self.started) for rate in rates)
        self._woke = self.started

    def take(self, bytes_read: int, bytes_written: int, now: float) -> float:
        """After a piece of I/O that ended at `now`: how long to sleep."""
        used = [
            (budget, amount)
            for budget, amount in zip(self._budgets, (bytes_read, bytes_written, 1), strict=True)
            if amount > 0
        ]
        rest = max(now - self._woke, 0.0) * (1 / max(self.pace.duty, 0.001) - 1)
        self._woke = max(now + rest, *(budget.due(amount) for budget, amount in used))
        for budget, _ in used:
            budget.last = self._woke
        return self._woke - now


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The share of its rate at which a pass works: halved while queries are slow, finally 0, doubled again stepwise."""

    factor: float = 1.0

    @property
    def is_paused(self) -> bool:
        return self.factor == 0

    def after(self, latency_ms: float | None, threshold_ms: float) -> Backoff:
        """The state after a look at the latency; no figure changes nothing."""
        if latency_ms is None or threshold_ms <= 0:
            return self
        if latency_ms > threshold_ms:
            slower = self.factor / 2
            return Backoff(factor=slower if slower >= SLOWEST else 0)
        return Backoff(factor=min(1.0, self.factor * 2 if self.factor else SLOWEST))


def quantile_ms(before: Mapping[float, float], after: Mapping[float, float], quantile: float) -> float | None:
    """A quantile in milliseconds of what a cumulative histogram (bound in seconds → count) took up between two looks;
    None for nothing."""
    taken = sorted((bound, count - before.get(bound, 0.0)) for bound, count in after.items())
    if not taken or taken[-1][1] <= 0:
        return None
    wanted = quantile * taken[-1][1]
    low, below = 0.0, 0.0
    for bound, count in taken:
        if count >= wanted:
            if bound == float("inf"):
                return low * 1000
            share = (wanted - below) / (count - below) if count > below else 1.0
            return (low + (bound - low) * share) * 1000
        low, below = bound, count
    return low * 1000
