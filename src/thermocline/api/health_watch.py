"""Observes the stack in the background, so that a probe is answered from memory, at once, whatever hangs.

An observation is made every few seconds; one that is older than a minute says nothing of now and is red itself.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from thermocline.core.health.finding import Finding
from thermocline.core.health.health_conditions import judge_age, judge_health
from thermocline.core.health.health_observation import HealthObservation
from thermocline.ops.health.observer import HealthObserver, read_limits
from thermocline.runtime.settings import Settings

_LOG = logging.getLogger("thermocline.health")
REFRESH_SECONDS = 10.0
_FIRST_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """The newest observation, its age, and the findings."""

    observation: HealthObservation | None
    age_seconds: float | None
    findings: tuple[Finding, ...]

    @property
    def reds(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict == "red")


class HealthWatch:
    """Keeps one observation fresh."""

    def __init__(self, settings: Settings, *, refresh_seconds: float = REFRESH_SECONDS) -> None:
        self._limits = read_limits(settings)
        self._observer = HealthObserver(settings)
        self._refresh_seconds = refresh_seconds
        self._newest: tuple[float, HealthObservation] | None = None
        self._has_observed = threading.Event()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> HealthState:
        """The state now. Only the first question waits, for the first observation, a few seconds at most."""
        self.start()
        self._has_observed.wait(_FIRST_SECONDS)
        newest = self._newest
        age = None if newest is None else time.monotonic() - newest[0]
        findings = () if newest is None else judge_health(newest[1])
        too_old = judge_age(age, self._limits)
        return HealthState(
            observation=None if newest is None else newest[1],
            age_seconds=age,
            findings=findings if too_old is None else (too_old, *findings),
        )

    def start(self) -> None:
        """Begin to observe; may be called again."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_observing, name="health watch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Observe no more; blocks until the observation under way has ended."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _keep_observing(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._newest = (began, self._observer.observe())
                self._has_observed.set()
            except Exception as problem:
                _LOG.exception("an observation failed: %s", problem, extra={"action": "health"})
            self._stopping.wait(self._refresh_seconds)
