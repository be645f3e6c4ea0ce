"""Count the statements that gateways of this process ran."""

from __future__ import annotations

from thermocline.gateway import metrics


def count_gateway_queries() -> float:
    """The number of statements that gateways of this process ran, failed ones included."""
    return float(
        sum(
            sample.value
            for metric in metrics.QUERIES.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )
    )
