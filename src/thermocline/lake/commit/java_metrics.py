"""Pass metrics of lake files to Iceberg and back in one call each, in Iceberg's JSON form of content files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from thermocline.lake.commit.java_values import java_class
from thermocline.parquet.footer.file_metrics import FileMetrics

_COUNTS = {
    "column_sizes": "column-sizes",
    "value_counts": "value-counts",
    "null_counts": "null-value-counts",
    "nan_counts": "nan-value-counts",
}
_BOUNDS = {"lower": "lower-bounds", "upper": "upper-bounds"}


def java_metrics(jvm: Any, metrics: FileMetrics) -> Any:
    """Iceberg's Metrics object. The maps are parsed by Iceberg: passed one by one, each value would be a py4j call."""
    document: dict[str, Any] = {
        "spec-id": 0,
        "content": "data",
        "file-path": "none",
        "file-format": "parquet",
        "partition": [],
        "file-size-in-bytes": 1,
        "record-count": metrics.rows,
    }
    document |= {key: _map(getattr(metrics, name)) for name, key in _COUNTS.items()}
    document |= {
        key: _map({key: bound.hex().upper() for key, bound in getattr(metrics, name).items()})
        for name, key in _BOUNDS.items()
    }
    tree = java_class(jvm, "org.apache.iceberg.util.JsonUtil").mapper().readTree(json.dumps(document))
    unpartitioned = java_class(jvm, "org.apache.iceberg.PartitionSpec").unpartitioned()
    read = java_class(jvm, "org.apache.iceberg.ContentFileParser").fromJson(tree, unpartitioned)
    return java_class(jvm, "org.apache.iceberg.Metrics")(
        read.recordCount(),
        read.columnSizes(),
        read.valueCounts(),
        read.nullValueCounts(),
        read.nanValueCounts(),
        read.lowerBounds(),
        read.upperBounds(),
    )


def read_bounds(jvm: Any, file: Any, spec: Any) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """The lower and the upper bounds of an Iceberg content file, by field id."""
    document = json.loads(java_class(jvm, "org.apache.iceberg.ContentFileParser").toJson(file, spec))
    lower, upper = (document.get(key) or {"keys": [], "values": []} for key in _BOUNDS.values())
    return _bytes(lower), _bytes(upper)


def _map(values: Mapping[int, object]) -> dict[str, Sequence[object]]:
    return {"keys": list(values), "values": list(values.values())}


def _bytes(columns: Mapping[str, Sequence[Any]]) -> dict[int, bytes]:
    return {int(key): bytes.fromhex(value) for key, value in zip(columns["keys"], columns["values"], strict=True)}
