"""A Spark session whose every use is overtaken by somebody's append."""

from __future__ import annotations

from typing import Any

from tests.spark.lake_table import Lake


def rows_of(*ids: int, region: str = "us") -> list[tuple[int, str, float]]:
    return [(at, region, at / 7) for at in ids]


class RacingSpark:
    """A Spark session whose every use is overtaken by somebody's append."""

    def __init__(self, lake: Lake, times: int) -> None:
        self.lake, self.left, self.is_on = lake, times, False

    def __call__(self) -> Any:
        if self.is_on and self.left:
            self.left -= 1
            self.lake.append(rows_of(2000 + self.left))
        return self.lake.spark

    def start(self, line: object) -> None:
        self.is_on = self.is_on or str(line).startswith("compact bin")
