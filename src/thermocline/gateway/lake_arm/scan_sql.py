"""Render a scan plan as DuckDB SQL: Parquet files read by field id, with position and equality deletes applied.

Only the files of the plan are opened. A position delete removes a row of a file by its position; an equality delete
removes every equal row of strictly older files of its partition (of all partitions when its own spec has no fields).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from thermocline.core.types import LAKE_TYPES
from thermocline.errors import LakeFileUnreadable
from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment
from thermocline.lake.read.scan import ScanPlan
from thermocline.lake.read.storage import FILE_URI_PATTERN, readable_path
from thermocline.lake.read.table_metadata import SnapshotFile
from thermocline.runtime.locations import without_file_scheme

_POSITIONS = """ANTI JOIN (
    SELECT files.path, p.pos
    FROM (SELECT regexp_replace(file_path, ?, '\\1') AS location, pos FROM read_parquet(?, hive_partitioning = false)) p
    JOIN (SELECT unnest(CAST(? AS VARCHAR[])) AS location, unnest(CAST(? AS VARCHAR[])) AS path) files
        ON files.location = p.location
) deleted ON deleted.path = d.tc_file AND deleted.pos = d.file_row_number"""


def render_scan(plan: ScanPlan, columns: Sequence[MappedColumn]) -> Fragment:
    """The scan as an item of FROM."""
    paths = [readable_path(file.path) for file in plan.data]
    if not plan.deletes:
        return Fragment(f"read_parquet(?, {_options(columns)})", (paths,))
    for delete in plan.deletes:
        if not delete.path.endswith(".parquet"):
            raise LakeFileUnreadable(f"Lake delete file {delete.path} is not Parquet; the gateway reads no other.")
    read = f"read_parquet(?, filename = 'tc_file', file_row_number = true, {_options(columns)}) d"
    parts = [Fragment("(SELECT d.* FROM"), Fragment(read, (paths,))]
    positions = [delete for delete in plan.deletes if not delete.equality_ids]
    if positions:
        locations = [without_file_scheme(file.path) for file in plan.data]
        parts.append(
            Fragment(_POSITIONS, (FILE_URI_PATTERN, [readable_path(file.path) for file in positions], locations, paths))
        )
    parts += _equality_joins(plan, columns, paths)
    parts.append(Fragment(")"))
    return Fragment(" ".join(part.text for part in parts), tuple(value for part in parts for value in part.parameters))


def _options(columns: Sequence[MappedColumn]) -> str:
    types = ", ".join(
        f"{c.field.field_id}: {{name: '{c.sql}', type: '{c.duckdb_type}', default_value: {_default_value(c)}}}"
        for c in columns
    )
    return f"hive_partitioning = false, union_by_name = false, schema = MAP {{{types}}}"


def _default_value(column: MappedColumn) -> str:
    """The column's default for files that lack it, in DuckDB's text form."""
    text = column.field.missing
    if text is None:
        return "NULL"
    if LAKE_TYPES[column.field.kind].text_form == "hex":
        text = "".join(f"\\x{text[at : at + 2]}" for at in range(2, len(text), 2))
    return "'" + text.replace("'", "''") + "'"


def _equality_joins(plan: ScanPlan, columns: Sequence[MappedColumn], paths: list[str]) -> list[Fragment]:
    """One anti join for each set of equality columns, separately for deletes that apply to all partitions."""
    groups: dict[tuple[tuple[int, ...], bool], list[SnapshotFile]] = defaultdict(list)
    for delete in plan.deletes:
        if delete.equality_ids:
            groups[delete.equality_ids, bool(delete.partition)].append(delete)
    if not groups:
        return []
    partition_numbers = _number_partitions([*plan.data, *plan.deletes])
    sequences = [file.sequence_number for file in plan.data]
    file_facts = (
        "JOIN (SELECT unnest(CAST(? AS VARCHAR[])) AS path, unnest(CAST(? AS BIGINT[])) AS sequence,"
        " unnest(CAST(? AS BIGINT[])) AS part) written ON written.path = d.tc_file"
    )
    joins = [Fragment(file_facts, (paths, sequences, [partition_numbers[file.partition] for file in plan.data]))]
    for number, ((ids, within), deletes) in enumerate(groups.items()):
        joins.append(
            _equality_join(
                f"eq{number}", deletes, _equality_columns(ids, columns, plan), partition_numbers, within=within
            )
        )
    return joins


def _number_partitions(files: Sequence[SnapshotFile]) -> dict[tuple[object, ...], int]:
    return {partition: number for number, partition in enumerate(dict.fromkeys(file.partition for file in files))}


def _equality_columns(ids: tuple[int, ...], columns: Sequence[MappedColumn], plan: ScanPlan) -> list[MappedColumn]:
    by_id = {column.field.field_id: column for column in columns}
    missing = [field_id for field_id in ids if field_id not in by_id]
    if missing:
        raise LakeFileUnreadable(
            f"An equality delete of {plan.table.location} compares field {missing[0]}, which the table has no more."
        )
    return [by_id[field_id] for field_id in ids]


def _equality_join(
    name: str,
    deletes: list[SnapshotFile],
    keys: list[MappedColumn],
    partition_numbers: dict[tuple[object, ...], int],
    *,
    within: bool,
) -> Fragment:
    listed = ", ".join(f"e.{key.sql}" for key in keys)
    same = " AND ".join(f"{name}.{key.sql} IS NOT DISTINCT FROM d.{key.sql}" for key in keys)
    place = f" AND {name}.part = written.part" if within else ""
    pieces = (
        f"ANTI JOIN (SELECT {listed}, {'w.part, ' if within else ''}max(w.sequence) AS sequence FROM",
        f"read_parquet(?, filename = 'tc_file', {_options(keys)}) e",
        "JOIN (SELECT unnest(CAST(? AS VARCHAR[])) AS path, unnest(CAST(? AS BIGINT[])) AS sequence,",
        "unnest(CAST(? AS BIGINT[])) AS part) w ON w.path = e.tc_file",
        f"GROUP BY ALL) {name} ON {same}{place} AND {name}.sequence > written.sequence",
    )
    paths = [readable_path(file.path) for file in deletes]
    parts = [partition_numbers[file.partition] for file in deletes]
    return Fragment(" ".join(pieces), (paths, paths, [file.sequence_number for file in deletes], parts))
