"""One copying task in a process of its own, as Spark's worker runs it; tells what it wrote and the memory it took on
top of rest."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
import sys

from thermocline.spark.kernels.copy_partition import copy_range, read_peak_bytes

task = pickle.loads(base64.b64decode(sys.stdin.read()))
# Libraries and pools are at rest once a first, empty range went through.
copy_range(dataclasses.replace(task, number=task.number + 1, lo_block=2**31 - 2), 0)
rest = read_peak_bytes()
done = copy_range(task, 0)
print(
    json.dumps(
        {
            "grown_bytes": done.peak_bytes - rest,
            "is_exact": done.heap == done.lake,
            "rows": done.heap.rows,
            "sizes": [file.size_bytes for file in done.files],
        }
    )
)
