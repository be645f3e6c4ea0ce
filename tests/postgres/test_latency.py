"""Back-off on slow queries: the gateway's own histogram over real HTTP, and a Prometheus-like answer."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from thermocline.core.maintenance.pacing import Pace
from thermocline.core.policy.policy import Policy
from thermocline.maintain.latency import LatencyProbe
from thermocline.maintain.pacing import Pacing


class Source:
    """Serves the metrics of a gateway and the API of Prometheus, with figures that a test sets."""

    def __init__(self) -> None:
        self.fast, self.slow, self.value = 0, 0, 0.0
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write((source.prometheus() if "/api/v1/query" in self.path else source.metrics()).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def metrics(self) -> str:
        name = "thermocline_gateway_query_seconds_bucket"
        total = self.fast + self.slow
        counts = (("0.01", self.fast), ("1.0", total), ("+Inf", total))
        return "\n".join(f'{name}{{le="{bound}"}} {float(count)}' for bound, count in counts)

    def prometheus(self) -> str:
        return json.dumps(
            {
                "status": "success",
                "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, str(self.value)]}]},
            }
        )


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.conforms("M-141")
def test_slow_queries_halve_the_rate_and_finally_pause_and_fast_ones_let_go_stepwise(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    pacing = Pacing(
        policy=Policy(latency_threshold_ms=100, max_read_mb_per_s=20),
        probe=LatencyProbe(gateway_http=source.address),
        clock=lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
        look_every_seconds=0,
    )
    assert pacing.why_pause() is None  # the first measurement is the baseline
    rates, pauses = [], []
    with caplog.at_level(logging.INFO, logger="thermocline.maintain"):
        for slow in (True, True, True, True, False, False, False, False):
            source.slow += 100 if slow else 0
            source.fast += 0 if slow else 100
            pauses.append(pacing.why_pause())
            rates.append(pacing.pace().duty)
    assert rates[:3] == [0.5, 0.25, 0.125]
    assert pauses[3] == "paused: queries take longer than 100 ms (990 ms), resumes 2026-03-01 12:05 UTC"
    assert [pause is None for pause in pauses] == [True] * 3 + [False] + [True] * 4
    assert rates[4:] == [0.125, 0.25, 0.5, 1.0]
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "maintenance slows down to 50.0% of its rate: queries take 990 ms, the limit is 100"
    assert "speeds up to 100.0%" in told[-1]


def test_a_prometheus_query_is_asked_when_the_policy_has_one(source: Source) -> None:
    source.value = 321.5
    probe = LatencyProbe(prometheus_url=f"http://{source.address}", query="histogram_quantile(0.95, x)")
    assert probe.read_ms() == 321.5
    source.value = float("nan")
    assert probe.read_ms() is None


def test_a_source_that_cannot_be_reached_changes_nothing() -> None:
    pacing = Pacing(
        policy=Policy(latency_threshold_ms=1), probe=LatencyProbe(gateway_http="127.0.0.1:1"), look_every_seconds=0
    )
    assert pacing.why_pause() is None
    assert pacing.pace() == Pace()
