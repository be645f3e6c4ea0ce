"""Render the DuckDB statement of a whole query: each table is the union of lake rows below T, corrections and heap
rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.types import render_duckdb_value
from thermocline.gateway.sql.expressions.sql_types import INT4, SqlType
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query.grouping import GROUPS_NAME, GroupBy, render_group_by
from thermocline.gateway.sql.query.heap_transfer import render_transfer
from thermocline.gateway.sql.query.query_plan import QueryPlan, UsedTable
from thermocline.gateway.sql.query.scope import SourceColumn
from thermocline.gateway.sql.query.source_tables import Tiers
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.gateway.sql.values import NotProvable
from thermocline.lake.read.scan import Bound, ScanPlan, is_certain
from thermocline.lake.read.table_metadata import LakeField


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRows:
    """The lake's rows of a table as an item of FROM, and their scan plan."""

    rows: Fragment
    plan: ScanPlan


def lake_scan(used: UsedTable, tiers: Tiers) -> TableScan:
    """Plan the scan of a table's lake, with the files that match its bounds."""
    bounds = (*used.usage.bounds, _below_line(used, tiers))
    return TableScan(
        mapped_table=tiers.mapped_table, snapshot_id=tiers.s, condition=(), bounds=bounds, start=0, end=0, alias=None
    )


def _below_line(used: UsedTable, tiers: Tiers) -> Bound:
    return Bound(field=_field(used, tiers.tier_key), op="<", values=(tiers.t,))


def _field(used: UsedTable, name: str) -> LakeField:
    field = used.table.columns[name].field
    if field is None:
        raise NotProvable(f"the lake does not hold {name}")
    return field


def used_columns(used: UsedTable) -> list[SourceColumn]:
    return sorted(used.usage.wanted.values(), key=lambda column: column.position)


def key_columns(used: UsedTable, tiers: Tiers) -> list[SourceColumn]:
    """The primary key, comparable in DuckDB."""
    columns = [used.table.columns[name] for name in tiers.pk]
    if any(column.sql_type is None or not column.sql_type.has_equality for column in columns):
        raise NotProvable("corrections are pending, and DuckDB cannot compare the table's key")
    return columns


def _sql_type(column: SourceColumn) -> SqlType:
    if column.sql_type is None:
        raise NotProvable(f"the type of column {column.name} is left to Postgres")
    return column.sql_type


# Queries to Postgres.


def heap_rows(used: UsedTable) -> tuple[sql.Composable, list[str], list[SqlType]]:
    """The query of the heap rows that the statement may need."""
    columns = used_columns(used)
    select_list = [render_transfer(sql.Identifier("h", column.name), _sql_type(column)) for column in columns] or [
        sql.SQL("1")
    ]
    query = sql.SQL("select {} from {} h{}").format(
        sql.SQL(", ").join(select_list), _table(used.table.heap), heap_condition(used)
    )
    return (
        query,
        [column.duckdb_name for column in columns] or ["c0"],
        [_sql_type(column) for column in columns] or [INT4],
    )


def heap_groups(statement: QueryPlan, group_by: GroupBy) -> tuple[sql.Composable, list[str], list[SqlType]]:
    """The query of the heap's part of a GROUP BY."""
    used = statement.used_tables[0]
    values = [term.heap for term in group_by.groups] + [aggregate.heap for aggregate in group_by.aggregates]
    select_list = [
        render_transfer(value, sql_type, is_column=False)
        for value, sql_type in zip(values, group_by.sql_types, strict=True)
        if value is not None
    ]
    places = [sql.SQL(str(at + 1)) for at in range(len(group_by.groups))]
    group = sql.SQL(" group by {}").format(sql.SQL(", ").join(places)) if places else sql.SQL("")
    query = sql.SQL("select {} from {} h{}{}").format(
        sql.SQL(", ").join(select_list) or sql.SQL("1"), _table(used.table.heap), heap_condition(used), group
    )
    return query, list(group_by.names), list(group_by.sql_types)


def heap_condition(used: UsedTable) -> sql.Composable:
    parts = list(used.usage.conditions)
    if used.table.tiers is not None and (cutline := _compare_with_cutline(used.table.tiers, ">=")) is not None:
        parts.insert(0, cutline)
    return sql.SQL(" where ") + sql.SQL(" and ").join(parts) if parts else sql.SQL("")


def select_pending(tiers: Tiers) -> sql.Composable:
    """The query of whether the delta has pending corrections below T."""
    return sql.SQL("select exists (select 1 from {} h where h._folded is null{})").format(
        _table(tiers.delta), _below(tiers)
    )


def delta_rows(used: UsedTable, tiers: Tiers) -> tuple[sql.Composable, list[str], list[SqlType]]:
    """The query of pending corrections below T: operation, keys, and the columns used."""
    keys, columns = key_columns(used, tiers), used_columns(used)
    select_list = [render_transfer(sql.Identifier("h", column.name), _sql_type(column)) for column in (*keys, *columns)]
    query = sql.SQL("select h._op::int, {} from {} h where h._folded is null{}").format(
        sql.SQL(", ").join(select_list), _table(tiers.delta), _below(tiers)
    )
    names = ["op", *(f"p{at}" for at in range(len(keys))), *(column.duckdb_name for column in columns)]
    return query, names, [INT4, *(_sql_type(column) for column in (*keys, *columns))]


def _below(tiers: Tiers) -> sql.Composable:
    cutline = _compare_with_cutline(tiers, "<")
    return sql.SQL(" and {}").format(cutline) if cutline is not None else sql.SQL("")


def _compare_with_cutline(tiers: Tiers, op: str) -> sql.Composable | None:
    """A comparison of the tier key with T."""
    key, key_type = sql.Identifier("h", tiers.tier_key), tiers.key_type
    bits = key_type.column_type.value_bits
    if key_type.is_integer and not -(1 << bits) <= tiers.t < 1 << bits:
        return sql.SQL("true" if (tiers.t < 0) == (op == ">=") else "false")
    comparison = sql.SQL("{} " + op + " {}::" + key_type.value)  # our own words
    return comparison.format(key, sql.Literal(render_axis(key_type, tiers.t)))


def _table(name: TableName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.table)


# Queries to DuckDB.


def render_source(used: UsedTable, lake: LakeRows | None, *, delta: bool, heap: bool) -> Fragment:
    """The rows of one table as a named relation."""
    number, arms = used.usage.number, []
    columns = used_columns(used)
    if lake is not None and used.table.tiers is not None:
        arms.append(_lake_arm(used, used.table.tiers, lake, delta=delta))
    if delta:
        arms.append(fill_template("SELECT {} FROM {} WHERE op = 0", [_select_list(columns), Fragment(f"d{number}")]))
    if heap:
        arms.append(fill_template("SELECT {} FROM {}", [_select_list(columns), Fragment(f"h{number}")]))
    if not arms:
        nothing = (
            ", ".join(f"CAST(NULL AS {_sql_type(column).duckdb_type}) AS {column.duckdb_name}" for column in columns)
            or "1 AS c0"
        )
        arms.append(Fragment(f"SELECT {nothing} WHERE FALSE"))
    return fill_template(f"t{number} AS NOT MATERIALIZED ({' UNION ALL '.join(['{}'] * len(arms))})", arms)


def _lake_arm(used: UsedTable, tiers: Tiers, lake: LakeRows, *, delta: bool) -> Fragment:
    columns = (
        ", ".join(
            f"CAST(l.{_lake_name(used, c.name)} AS {_sql_type(c).duckdb_type}) AS {c.duckdb_name}"
            for c in used_columns(used)
        )
        or "1 AS c0"
    )
    parts = [Fragment(columns), lake.rows]
    template = "SELECT {} FROM {} AS l"
    if delta:
        keys = key_columns(used, tiers)
        name = f"d{used.usage.number}"
        same = " AND ".join(
            f"{_cast(f'{name}.p{at}', _sql_type(key))}"
            f" = CAST(l.{_lake_name(used, key.name)} AS {_sql_type(key).duckdb_type})"
            for at, key in enumerate(keys)
        )
        template += f" ANTI JOIN {name} ON {same}"
    if tiers.t not in (AXIS_MIN, AXIS_MAX) and not is_certain(lake.plan.data, _below_line(used, tiers)):
        template += f" WHERE l.{_lake_name(used, tiers.tier_key)} < {{}}"
        parts.append(Fragment(render_duckdb_value(tiers.key_type.column_type.lake), (tiers.t,)))
    return fill_template(template, parts)


def _lake_name(used: UsedTable, name: str) -> str:
    return f"c{_field(used, name).field_id}"


def _cast(text: str, sql_type: SqlType) -> str:
    return f"CAST({text} AS UUID)" if sql_type.family == "uuid" else text


def _select_list(columns: Sequence[SourceColumn]) -> Fragment:
    return Fragment(
        ", ".join(f"{_cast(column.duckdb_name, _sql_type(column))} AS {column.duckdb_name}" for column in columns)
        or "1 AS c0"
    )


def render_whole(statement: QueryPlan, sources: Sequence[Fragment]) -> Fragment:
    """The statement over the rows of its tables."""
    named = list(sources)
    if statement.group_by is not None:
        named.append(fill_template(f"{GROUPS_NAME} AS NOT MATERIALIZED ({{}})", [statement.group_by.duckdb]))
    return fill_template(f"WITH {', '.join(['{}'] * len(named))} {{}}", [*named, statement.query.duckdb])


def render_lake_groups(group_by: GroupBy, used: UsedTable, lake: LakeRows | None, *, delta: bool) -> Fragment:
    """The lake's part of a GROUP BY. Conditions that the files' bounds prove for every row are left out, except where
    there are corrections, which have no bounds."""
    data_files = lake.plan.data if lake is not None and not delta else None
    conditions = [
        part
        for part in group_by.source.conditions
        if data_files is None or part.bound is None or not is_certain(data_files, part.bound[1])
    ]
    return fill_template(
        "WITH {} {}",
        [render_source(used, lake, delta=delta, heap=False), group_by.over_rows(group_by.source.where(conditions))],
    )


def render_combined(statement: QueryPlan, group_by: GroupBy) -> Fragment:
    """The statement over the partial groups of lake (`lk`) and heap (`hk`)."""
    casts = [_cast(name, sql_type) for name, sql_type in zip(group_by.names, group_by.sql_types, strict=True)]
    both = [Fragment(", ".join(group_by.names) or "1"), Fragment(", ".join(casts) or "1")]
    parts = fill_template("(SELECT {} FROM lk UNION ALL SELECT {} FROM hk) AS parts", both)
    count = len(group_by.groups)
    select_list = [Fragment(name) for name in group_by.names[:count]]
    for name, used in zip(group_by.names[count:], group_by.aggregates, strict=True):
        if used.combine is None:
            raise NotProvable("an aggregate that cannot be put together")
        select_list.append(Fragment(used.combine.format(name)))
    return fill_template(
        f"WITH {GROUPS_NAME} AS NOT MATERIALIZED ({{}}) {{}}",
        [render_group_by(select_list, group_by.names, parts, count), statement.query.duckdb],
    )
