"""The table of column types: one declaration per type, read by every engine.

`LakeType` declares a primitive type of Iceberg: its Arrow and DuckDB types, how its values are stored and written, how
they are ordered, and which values of Postgres it cannot hold. `ColumnType` declares a Postgres type that the lake holds
natively: its name and OID, the lake type it is held as, and its use as a tier key. Every other Postgres type is held as
`string` in Postgres' own text form and cast back by the seam; no value is stored as an approximation.

A new type is one declaration. Each engine derives its own mapping from it: Arrow in `parquet/values/arrow_types.py`,
row hashes in `parquet/values/row_checksum.py`, DuckDB in `gateway/sql/expressions/sql_types.py`, the wire in
`gateway/wire/binary_format.py`, SQL functions from the table `thermocline.column_types`.
`tests/unit/test_type_table.py` compares every declaration with the engines.
"""

from __future__ import annotations

from thermocline.core.types.column_types import (
    COLUMN_TYPES,
    COLUMN_TYPES_BY_NAME,
    COLUMN_TYPES_BY_OID,
    POSTGRES_TYPES,
    UNFAITHFUL_TYPES,
    ColumnType,
    Form,
    TierAxis,
    is_unfaithful,
)
from thermocline.core.types.lake_types import (
    FIRST_DAY,
    LAKE_TYPES,
    LAST_DAY,
    MAX_DECIMAL_PRECISION,
    MICROSECONDS_PER_DAY,
    LakeType,
    PrimitiveType,
    TextForm,
    lake_type_named,
    parse_lake_type,
    render_duckdb,
    render_duckdb_value,
)

__all__ = [
    "COLUMN_TYPES",
    "COLUMN_TYPES_BY_NAME",
    "COLUMN_TYPES_BY_OID",
    "FIRST_DAY",
    "LAKE_TYPES",
    "LAST_DAY",
    "MAX_DECIMAL_PRECISION",
    "MICROSECONDS_PER_DAY",
    "POSTGRES_TYPES",
    "UNFAITHFUL_TYPES",
    "ColumnType",
    "Form",
    "LakeType",
    "PrimitiveType",
    "TextForm",
    "TierAxis",
    "is_unfaithful",
    "lake_type_named",
    "parse_lake_type",
    "render_duckdb",
    "render_duckdb_value",
]
