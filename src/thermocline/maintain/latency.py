"""The current query latency, from the gateway's own histogram or a Prometheus query."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from thermocline.core.maintenance.pacing import quantile_ms

_LOG = logging.getLogger("thermocline.maintain")
_TIMEOUT_SECONDS = 2
_QUANTILE = 0.99
_BUCKET = "thermocline_gateway_query_seconds_bucket"


@dataclass(slots=True)
class LatencyProbe:
    """Measures the latency periodically; None while there is no measurement."""

    gateway_http: str | None = None
    """host:port of the gateway's metrics."""
    prometheus_url: str | None = None
    query: str = ""
    _last_buckets: Mapping[float, float] = field(default_factory=dict)

    def read_ms(self) -> float | None:
        """The 99th percentile since the last measurement, or the result of the query, in milliseconds."""
        try:
            if self.query and self.prometheus_url:
                return self._query_prometheus()
            return self._scrape_gateway() if self.gateway_http else None
        except (URLError, OSError, ValueError, KeyError, IndexError) as problem:
            _LOG.warning("the latency of queries cannot be read: %s", problem, extra={"action": "maintain"})
            return None

    def _query_prometheus(self) -> float | None:
        with urlopen(
            f"{self.prometheus_url}/api/v1/query?{urlencode({'query': self.query})}", timeout=_TIMEOUT_SECONDS
        ) as answer:
            found = json.load(answer)["data"]["result"]
        value = float(found[0]["value"][1]) if found else None
        return value if value is not None and value == value else None  # NaN: no samples

    def _scrape_gateway(self) -> float | None:
        with urlopen(f"http://{self.gateway_http}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
        now = read_buckets(text)
        before, self._last_buckets = self._last_buckets, now
        return quantile_ms(before, now, _QUANTILE) if before else None


def read_buckets(text: str) -> dict[float, float]:
    """The cumulative buckets of the gateway's query histogram: upper bound in seconds -> statements."""
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == _BUCKET
    }
