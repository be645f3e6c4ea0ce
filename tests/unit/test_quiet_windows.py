"""Quiet windows: reading them, and when they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from thermocline.core.policy.policy_layers import NOTHING, PolicyChanges, PolicyLayers, resolve_policy
from thermocline.core.policy.quiet_windows import parse_quiet_windows, quiet_until
from thermocline.errors.maintenance import BadQuietWindow
from thermocline.maintain.latency import LatencyProbe
from thermocline.maintain.pacing import Pacing


def _same(now: datetime) -> datetime:
    return now


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("windows", "now", "until"),
    [
        ("09:00-17:00 UTC", "2026-03-02 08:59", None),
        ("09:00-17:00 UTC", "2026-03-02 09:00", "2026-03-02 17:00"),
        ("09:00-17:00", "2026-03-02 16:59", "2026-03-02 17:00"),
        ("09:00-17:00 UTC", "2026-03-02 17:00", None),
        ("22:00-06:00 UTC", "2026-03-02 23:30", "2026-03-03 06:00"),
        ("22:00-06:00 UTC", "2026-03-03 05:59", "2026-03-03 06:00"),
        ("22:00-24:00 UTC", "2026-03-02 23:59", "2026-03-03 00:00"),
        # Monday to Friday: Saturday morning belongs to Friday's window, Monday morning to none.
        ("mon-fri 22:00-06:00 UTC", "2026-03-07 05:00", "2026-03-07 06:00"),
        ("mon-fri 22:00-06:00 UTC", "2026-03-02 05:00", None),
        ("sat,sun 00:00-24:00 UTC", "2026-03-07 12:00", "2026-03-09 00:00"),
        ("fri-mon 08:00-09:00 UTC", "2026-03-01 08:30", "2026-03-01 09:00"),
        ("09:00-12:00 UTC; 12:00-13:00 UTC", "2026-03-02 10:00", "2026-03-02 13:00"),
        # Berlin is an hour ahead in winter and two in summer.
        ("09:00-17:00 Europe/Berlin", "2026-01-05 08:00", "2026-01-05 16:00"),
        ("09:00-17:00 Europe/Berlin", "2026-07-06 07:00", "2026-07-06 15:00"),
        # On the night the clocks go forward (29 March 2026) the window is an hour shorter.
        ("00:00-06:00 Europe/Berlin", "2026-03-29 00:30", "2026-03-29 04:00"),
        # Half past two comes twice that night: quiet until the second, and from the first on.
        ("22:00-02:30 Europe/Berlin", "2026-10-25 01:00", "2026-10-25 01:30"),
        ("02:30-05:00 Europe/Berlin", "2026-10-25 00:30", "2026-10-25 04:00"),
        # And not at all: what begins then begins with the hour that is there.
        ("02:30-05:00 Europe/Berlin", "2026-03-29 01:10", "2026-03-29 03:00"),
        ("", "2026-03-02 10:00", None),
    ],
)
def test_the_end_of_the_quiet_that_holds(windows: str, now: str, until: str | None) -> None:
    assert quiet_until(parse_quiet_windows(windows), moment(now)) == (moment(until) if until else None)


@pytest.mark.conforms("O-131")
@pytest.mark.parametrize(
    "text",
    ["25:00-26:00", "09:60-10:00", "09:00-09:00", "09:00-17:00 Mars/Olympus", "9-17", "someday 09:00-17:00", "09:00"],
)
def test_windows_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadQuietWindow) as refusal:
        parse_quiet_windows(text)
    assert refusal.value.exit_code == 2


@pytest.mark.conforms("M-009")
@pytest.mark.parametrize(("hour", "paused"), [(8, False), (9, True), (16, True), (17, False), (23, False)])
def test_the_preset_artemis_pauses_from_nine_to_five_every_day_and_looks_at_the_latency_of_queries(
    hour: int, paused: bool
) -> None:
    others = {
        "environment": NOTHING,
        "environment_names": {},
        "catalog": NOTHING,
        "namespace": NOTHING,
        "properties": {},
    }
    policy = resolve_policy(PolicyLayers(table=PolicyChanges(values={}, preset="artemis"), **others)).policy  # type: ignore[arg-type]
    for day in range(16, 23):
        now = datetime(2026, 11, day, hour, 0, 1, tzinfo=UTC)
        pacing = Pacing(policy=policy, probe=LatencyProbe(), clock=partial(_same, now))
        told = pacing.why_pause()
        assert (told is not None) == paused, now
        if told:
            assert told == f"paused: quiet window 09:00-17:00 UTC, resumes 2026-11-{day} 17:00 UTC"
            assert pacing.resumes_at == now.replace(hour=17, minute=0, second=0)
    assert (policy.maintenance_enabled, policy.latency_threshold_ms, policy.pass_interval_ms) == (True, 1000, 60_000)
