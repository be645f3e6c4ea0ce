"""Which partitioning and which column type give a tier key."""

from __future__ import annotations

from thermocline.core.axis import KeyType
from thermocline.core.types import COLUMN_TYPES


def key_type_of(base_type: str) -> KeyType | None:
    """The tier-key type of a Postgres type, or `None` when it cannot be one."""
    declared = COLUMN_TYPES.get(base_type)
    return None if declared is None or declared.axis is None else KeyType(declared.name)


def why_not_partitioned(strategy: str | None, key_text: str | None, columns: int, has_expression: bool) -> str | None:
    """The reason the partitioning does not give a tier key; `key_text` is the text of pg_get_partkeydef(), such as
    `RANGE (ts)`."""
    if strategy is None:
        return "it is not partitioned"
    if strategy != "r":
        return f"it is partitioned by {key_text}, not by RANGE"
    if columns != 1:
        return f"it is partitioned by several columns: {key_text}"
    if has_expression:
        return f"it is partitioned by an expression: {key_text}"
    return None
