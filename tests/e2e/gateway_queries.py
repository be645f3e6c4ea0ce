"""Count the statements that gateways of this process answered."""

from __future__ import annotations

from thermocline.gateway import metrics


def count_gateway_queries() -> float:
    """Statements that gateways of this process have answered, well or not."""
    return float(
        sum(
            sample.value
            for metric in metrics.QUERIES.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )
    )
