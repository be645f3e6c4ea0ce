"""The conditions of health as gauges, of the newest observation; Postgres may be away."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from thermocline.api.health_watch import HealthState, HealthWatch
from thermocline.core.health.health_conditions import CONDITIONS

OBSERVATION_AGE = "thermocline_health_observation_age_seconds"
OBSERVATION_AGE_HELP = "Age of the observation that the gauges of health are of."


def render_health(state: HealthState) -> Iterator[Metric]:
    """A gauge for each condition, 1 unless it is red; and how old the observation is."""
    seen = state.observation
    age = GaugeMetricFamily(OBSERVATION_AGE, OBSERVATION_AGE_HELP)
    if state.age_seconds is not None:
        age.add_metric([], state.age_seconds)
    yield age
    for condition in CONDITIONS:
        family = GaugeMetricFamily(condition.metric, condition.help, labels=["table"] if condition.of_tables else [])
        findings = () if seen is None else tuple(condition.judge(seen))
        reds = {finding.table for finding in findings if finding.verdict == "red"}
        if condition.of_tables and seen is not None:
            for table in seen.tables:
                family.add_metric([table.table], float(table.table not in reds))
        elif findings:
            family.add_metric([], float(not reds))
        yield family


class HealthCollector(Collector):
    """Exports the newest observation; Postgres may be away."""

    def __init__(self, watch: HealthWatch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        yield from render_health(self._watch.read())


def health_registry(watch: HealthWatch) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(HealthCollector(watch))
    return registry
