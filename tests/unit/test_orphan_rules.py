"""When a listed file is an orphan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from thermocline.core.maintenance.orphans import ListedFile, judge_age
from thermocline.core.policy.policy_layers import parse_changes
from thermocline.errors.maintenance import BadPolicyValue

pytestmark = pytest.mark.unit
NOW = datetime(2026, 11, 16, tzinfo=UTC)


def file(age: timedelta | None) -> ListedFile:
    return ListedFile(path="/lake/x.parquet", size_bytes=1, modified=None if age is None else NOW - age)


@pytest.mark.conforms("M-104")
def test_a_file_of_unknown_age_stays_and_no_setting_makes_the_cutoff_wrap() -> None:
    assert judge_age(file(None), NOW, timedelta(hours=1)).reason == "its age is not known"
    for hours in ("0", "-1", "99999999999999999999", "2147483648"):
        with pytest.raises(BadPolicyValue):
            parse_changes([f"orphan_grace_hours={hours}"], None)
    largest = timedelta(hours=2_147_483_647)
    assert not judge_age(file(timedelta(days=300_000)), NOW, largest).is_orphan


def test_a_file_from_the_future_is_young() -> None:
    assert not judge_age(file(timedelta(days=-3)), NOW, timedelta(hours=72)).is_orphan


def test_the_grace_period_is_never_less_than_a_day() -> None:
    assert not judge_age(file(timedelta(hours=23)), NOW, timedelta(seconds=1)).is_orphan
    assert judge_age(file(timedelta(hours=25)), NOW, timedelta(seconds=1)).is_orphan
    assert not judge_age(file(timedelta(hours=71)), NOW, timedelta(hours=72)).is_orphan
