"""Pause or throttle a pass: during quiet windows, and while queries are slow.

Checked when a pass starts an operation that rewrites data, and between its bins. A pause keeps finished bins and has an
end.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from thermocline.core.maintenance.pacing import UNPACED, Backoff, Pace, plan_pace
from thermocline.core.policy.policy import Policy
from thermocline.core.policy.quiet_windows import parse_quiet_windows, quiet_from, quiet_until
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.latency import LatencyProbe
from thermocline.runtime.file_io import open_location
from thermocline.runtime.locations import local_path
from thermocline.runtime.settings import Settings

_LOG = logging.getLogger("thermocline.maintain")
_LOOK_EVERY_SECONDS = 5.0
_MEASURED_BYTES = 32 * 1_048_576
_SLOW_PAUSE = timedelta(minutes=5)


def render_pause(reason: str, until: datetime) -> str:
    return f"paused: {reason}, resumes {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(slots=True, kw_only=True)
class Pacing:
    """The pace of one pass. `measure` returns the store's read bandwidth, where the policy sets a share of it and no
    rate. It is called once, when the first bin begins, so that a pass without work reads nothing.
    """

    policy: Policy
    probe: LatencyProbe
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    look_every_seconds: float = _LOOK_EVERY_SECONDS
    measure: Callable[[], float] | None = None
    resumes_at: datetime | None = None
    _backoff: Backoff = field(default_factory=Backoff)
    _measured_at: float = field(default=-1e9)
    measured_bytes_per_s: float | None = None

    def why_pause(self) -> str | None:
        """The current pause as a sentence, or None; the pass stops before the next bin."""
        if (until := quiet_until(parse_quiet_windows(self.policy.quiet_windows), self.clock())) is not None:
            self.resumes_at = until
            return render_pause(f"quiet window {self.policy.quiet_windows}", until)
        latency = self._measure_latency()
        if not self._backoff.is_paused:
            return None
        self.resumes_at = self.clock() + _SLOW_PAUSE
        figure = f" ({latency:.0f} ms)" if latency is not None else ""
        return render_pause(
            f"queries take longer than {self.policy.latency_threshold_ms:g} ms{figure}", self.resumes_at
        )

    def pace(self) -> Pace:
        """The I/O budget of a task that starts now, and its deadline: when a quiet window begins, it stops before the
        next bin."""
        if self.measured_bytes_per_s is None:
            self.measured_bytes_per_s = self.measure() if self.measure is not None else 0
        pace = plan_pace(self.policy, self.measured_bytes_per_s).slowed(self._backoff.factor or 1)
        now = self.clock()
        begins = quiet_from(parse_quiet_windows(self.policy.quiet_windows), now)
        return pace if begins is None else replace(pace, until=time.time() + (begins - now).total_seconds())

    def _measure_latency(self) -> float | None:
        threshold = self.policy.latency_threshold_ms
        if threshold <= 0 or time.monotonic() - self._measured_at < self.look_every_seconds:
            return None
        self._measured_at = time.monotonic()
        latency = self.probe.read_ms()
        before, self._backoff = self._backoff, self._backoff.after(latency, threshold)
        if latency is not None and self._backoff != before:
            verb = "slows down" if self._backoff.factor < before.factor else "speeds up"
            sentence = (
                f"maintenance {verb} to {self._backoff.factor:.1%} of its rate: queries take {latency:.0f} ms, "
                f"the limit is {threshold:g}"
            )
            _LOG.info(sentence, extra={"action": "maintain"})
        return latency


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPacing:
    """For `--ignore-pacing`."""

    resumes_at: datetime | None = None

    def why_pause(self) -> str | None:
        return None

    def pace(self) -> Pace:
        return UNPACED


def pacing_of(policy: Policy, settings: Settings, metadata_location: str | None, *, ignore: bool) -> Pacing | NoPacing:
    """The pace of a pass. Where the policy sets a share of the store's bandwidth and no rate, the bandwidth is
    measured."""
    if ignore:
        return NoPacing()
    is_share = policy.bandwidth_share < 1 and not policy.bandwidth_mb_per_s
    measure = (
        partial(measure_read_bytes_per_s, metadata_location) if is_share and metadata_location is not None else None
    )
    probe = LatencyProbe(
        gateway_http=settings.gateway_http_listen, prometheus_url=settings.prometheus_url, query=policy.latency_query
    )
    return Pacing(policy=policy, probe=probe, measure=measure)


def measure_read_bytes_per_s(metadata_location: str) -> float:
    """Measure the read rate of the table's largest file, up to 32 MB of it; 0 for a table without files."""
    table = read_lake_table(metadata_location)
    current = table.metadata.current_snapshot_id
    files = table.files(current).data if current is not None else ()
    if not files:
        return 0
    largest = max(files, key=lambda file: file.size_bytes)
    _forget_cached(largest.path)
    store, path = open_location(largest.path)
    started = time.monotonic()
    with store.open_input_stream(path) as stream:
        read = len(stream.read(min(largest.size_bytes, _MEASURED_BYTES)))
    return read / max(time.monotonic() - started, 1e-6)


def _forget_cached(location: str) -> None:
    """Drop a local file from the page cache, so that the measurement reads from disk."""
    if (file := local_path(location)) is None:
        return
    handle = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
