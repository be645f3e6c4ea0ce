"""The keys that a snapshot's summary carries of the op that made it."""

from __future__ import annotations

OP_KEY = "thermocline.op-id"
KIND_KEY = "thermocline.kind"
TABLE_KEY = "thermocline.table"
T_KEY = "thermocline.t"
