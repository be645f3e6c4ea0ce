"""Why a pass should stop or slow down now: quiet windows, and queries that got slow.

Asked when a pass starts an operation that rewrites data, and between its bins; a pause keeps what is finished and says when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from thermocline.core.maintenance.outcome import Operation
from thermocline.core.maintenance.policy import Policy
from thermocline.core.maintenance.quiet_windows import parse_quiet_windows, quiet_until

PACED: frozenset[Operation] = frozenset({"convert_deletes", "compact", "rewrite_position_delete_files"})
"""What reads and writes data files; the others touch metadata or delete, and finish quickly."""


def render_pause(reason: str, until: datetime | None) -> str:
    return f"paused: {reason}, resumes {until:%Y-%m-%d %H:%M} UTC" if until else f"paused: {reason}, resumes when it is over"


def why_pause(policy: Policy, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> str | None:
    """The pause that holds now, as a sentence."""
    until = quiet_until(parse_quiet_windows(policy.quiet_windows), clock())
    return render_pause(f"quiet window {policy.quiet_windows}", until.astimezone(UTC)) if until else None
