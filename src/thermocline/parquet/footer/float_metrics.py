"""Metrics of float columns that only the writer knows: the number of NaN, the lowest and the highest number.

Our footers have no statistics of floats. Arrow leaves NaN out of a chunk's minimum and maximum, while Spark and DuckDB
treat NaN as larger than every number: they would skip row groups that contain it. Manifests have the bounds, without an
upper bound where there is NaN.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(slots=True)
class FloatFacts:
    """NaN counts and bounds by field id, over all batches that were added."""

    nan_counts: Counter[int] = field(default_factory=Counter)
    ends: dict[int, tuple[float, float]] = field(default_factory=dict)

    def add(self, field_id: int, column: pa.ChunkedArray) -> None:
        """Add the values of one float column."""
        self.nan_counts[field_id] += 0  # a column without NaN is known to have none
        for chunk in column.chunks:
            values = chunk.drop_null().to_numpy(zero_copy_only=False)
            nans = int(np.count_nonzero(np.isnan(values)))
            self.nan_counts[field_id] += nans
            if nans < len(values):
                low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
                before = self.ends.get(field_id, (low, high))
                self.ends[field_id] = (min(before[0], low), max(before[1], high))
