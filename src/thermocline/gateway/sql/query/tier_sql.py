"""The DuckDB statement of a whole query: each table as lake rows below T, corrections, and heap rows; then the
statement over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis
from thermocline.core.names import TableName
from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query.grouping import CORE, Core, grouped
from thermocline.gateway.sql.query.heap_transfer import travelling
from thermocline.gateway.sql.query.query_plan import Statement, TableUse
from thermocline.gateway.sql.query.scope import SourceColumn
from thermocline.gateway.sql.query.source_tables import Tiers
from thermocline.gateway.sql.query.sql_types import INT4, Kind
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.gateway.sql.values import NotProvable
from thermocline.lake.read.scan import Bound, ScanPlan, is_certain
from thermocline.lake.read.table_metadata import LakeField

_RANGES = {KeyType.SMALLINT: 15, KeyType.INTEGER: 31, KeyType.BIGINT: 63}
_MAKERS = {
    KeyType.DATE: ("(DATE '1970-01-01' + CAST(? AS INTEGER))"),
    KeyType.TIMESTAMP: "make_timestamp(CAST(? AS BIGINT))",
    KeyType.TIMESTAMPTZ: "make_timestamptz(CAST(? AS BIGINT))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRows:
    """The lake's rows of a table as they stand after FROM, and the plan whose files hold them."""

    rows: Fragment
    plan: ScanPlan


def scan_of(made: TableUse, tiers: Tiers) -> TableScan:
    """The lake's part of a table, with the files that its bounds leave."""
    bounds = (*made.use.bounds, _below_line(made, tiers))
    return TableScan(facts=tiers.facts, snapshot_id=tiers.s, condition=(), bounds=bounds, start=0, end=0, alias=None)


def _below_line(made: TableUse, tiers: Tiers) -> Bound:
    return Bound(field=_field(made, tiers.tier_key), op="<", values=(tiers.t,))


def _field(made: TableUse, name: str) -> LakeField:
    field = made.table.columns[name].field
    if field is None:
        raise NotProvable(f"the lake does not hold {name}")
    return field


def wanted(made: TableUse) -> list[SourceColumn]:
    return sorted(made.use.wanted.values(), key=lambda column: column.position)


def key_columns(made: TableUse, tiers: Tiers) -> list[SourceColumn]:
    """The primary key, comparable in DuckDB."""
    columns = [made.table.columns[name] for name in tiers.pk]
    if any(column.kind is None or not column.kind.has_equality for column in columns):
        raise NotProvable("corrections are pending, and DuckDB cannot compare the table's key")
    return columns


def _kind(column: SourceColumn) -> Kind:
    if column.kind is None:
        raise NotProvable(f"the type of column {column.name} is left to Postgres")
    return column.kind


# What Postgres is asked.


def heap_rows(made: TableUse) -> tuple[sql.Composable, list[str], list[Kind]]:
    """The heap's rows that the statement can need."""
    columns = wanted(made)
    listed = [travelling(sql.Identifier("h", column.name), _kind(column)) for column in columns] or [sql.SQL("1")]
    query = sql.SQL("select {} from {} h{}").format(
        sql.SQL(", ").join(listed), _table(made.table.heap), heap_condition(made)
    )
    return query, [column.duck for column in columns] or ["c0"], [_kind(column) for column in columns] or [INT4]


def heap_groups(statement: Statement, core: Core) -> tuple[sql.Composable, list[str], list[Kind]]:
    """The heap's part of a GROUP BY."""
    made = statement.uses[0]
    values = [term.heap for term in core.groups] + [aggregate.heap for aggregate in core.aggregates]
    listed = [
        travelling(value, kind, is_column=False)
        for value, kind in zip(values, core.kinds, strict=True)
        if value is not None
    ]
    places = [sql.SQL(str(at + 1)) for at in range(len(core.groups))]
    group = sql.SQL(" group by {}").format(sql.SQL(", ").join(places)) if places else sql.SQL("")
    query = sql.SQL("select {} from {} h{}{}").format(
        sql.SQL(", ").join(listed) or sql.SQL("1"), _table(made.table.heap), heap_condition(made), group
    )
    return query, list(core.names), list(core.kinds)


def heap_condition(made: TableUse) -> sql.Composable:
    parts = list(made.use.conditions)
    if made.table.tiers is not None and (line := _line(made.table.tiers, ">=")) is not None:
        parts.insert(0, line)
    return sql.SQL(" where ") + sql.SQL(" and ").join(parts) if parts else sql.SQL("")


def pending(tiers: Tiers) -> sql.Composable:
    """Whether corrections below T wait in the delta."""
    return sql.SQL("select exists (select 1 from {} h where h._folded is null{})").format(
        _table(tiers.delta), _below(tiers)
    )


def delta_rows(made: TableUse, tiers: Tiers) -> tuple[sql.Composable, list[str], list[Kind]]:
    """Pending corrections below T: keys, whether they stand, and the columns wanted."""
    keys, columns = key_columns(made, tiers), wanted(made)
    listed = [travelling(sql.Identifier("h", column.name), _kind(column)) for column in (*keys, *columns)]
    query = sql.SQL("select h._op::int, {} from {} h where h._folded is null{}").format(
        sql.SQL(", ").join(listed), _table(tiers.delta), _below(tiers)
    )
    names = ["op", *(f"p{at}" for at in range(len(keys))), *(column.duck for column in columns)]
    return query, names, [INT4, *(_kind(column) for column in (*keys, *columns))]


def _below(tiers: Tiers) -> sql.Composable:
    line = _line(tiers, "<")
    return sql.SQL(" and {}").format(line) if line is not None else sql.SQL("")


def _line(tiers: Tiers, op: str) -> sql.Composable | None:
    """The tier key beside T."""
    key, kind = sql.Identifier("h", tiers.tier_key), tiers.key_type
    if kind.is_integer and not -(2 ** _RANGES[kind]) <= tiers.t < 2 ** _RANGES[kind]:
        return sql.SQL("true" if (tiers.t < 0) == (op == ">=") else "false")
    spelled = sql.SQL("{} " + op + " {}::" + kind.value)  # our own words
    return spelled.format(key, sql.Literal(render_axis(kind, tiers.t)))


def _table(name: TableName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.table)


# What DuckDB is asked.


def source(made: TableUse, lake: LakeRows | None, *, delta: bool, heap: bool) -> Fragment:
    """The rows of one table as the named source of its use."""
    number, arms = made.use.number, []
    columns = wanted(made)
    if lake is not None and made.table.tiers is not None:
        arms.append(_lake_arm(made, made.table.tiers, lake, delta=delta))
    if delta:
        arms.append(merged("SELECT {} FROM {} WHERE op = 0", [_listed(columns), Fragment(f"d{number}")]))
    if heap:
        arms.append(merged("SELECT {} FROM {}", [_listed(columns), Fragment(f"h{number}")]))
    if not arms:
        nothing = ", ".join(f"CAST(NULL AS {_kind(column).duckdb}) AS {column.duck}" for column in columns) or "1 AS c0"
        arms.append(Fragment(f"SELECT {nothing} WHERE FALSE"))
    return merged(f"t{number} AS NOT MATERIALIZED ({' UNION ALL '.join(['{}'] * len(arms))})", arms)


def _lake_arm(made: TableUse, tiers: Tiers, lake: LakeRows, *, delta: bool) -> Fragment:
    columns = (
        ", ".join(f"CAST(l.{_lake_name(made, c.name)} AS {_kind(c).duckdb}) AS {c.duck}" for c in wanted(made))
        or "1 AS c0"
    )
    parts = [Fragment(columns), lake.rows]
    template = "SELECT {} FROM {} AS l"
    if delta:
        keys = key_columns(made, tiers)
        name = f"d{made.use.number}"
        same = " AND ".join(
            f"{_cast(f'{name}.p{at}', _kind(key))} = CAST(l.{_lake_name(made, key.name)} AS {_kind(key).duckdb})"
            for at, key in enumerate(keys)
        )
        template += f" ANTI JOIN {name} ON {same}"
    if tiers.t not in (AXIS_MIN, AXIS_MAX) and not is_certain(lake.plan.data, _below_line(made, tiers)):
        template += f" WHERE l.{_lake_name(made, tiers.tier_key)} < {{}}"
        parts.append(Fragment(_MAKERS.get(tiers.key_type, "CAST(? AS BIGINT)"), (tiers.t,)))
    return merged(template, parts)


def _lake_name(made: TableUse, name: str) -> str:
    return f"c{_field(made, name).field_id}"


def _cast(text: str, kind: Kind) -> str:
    return f"CAST({text} AS UUID)" if kind.family == "uuid" else text


def _listed(columns: Sequence[SourceColumn]) -> Fragment:
    return Fragment(
        ", ".join(f"{_cast(column.duck, _kind(column))} AS {column.duck}" for column in columns) or "1 AS c0"
    )


def whole(statement: Statement, sources: Sequence[Fragment]) -> Fragment:
    """The statement over its sources."""
    named = list(sources)
    if statement.core is not None:
        named.append(merged(f"{CORE} AS NOT MATERIALIZED ({{}})", [statement.core.duck]))
    return merged(f"WITH {', '.join(['{}'] * len(named))} {{}}", [*named, statement.query.duck])


def lake_groups(core: Core, made: TableUse, lake: LakeRows | None, *, delta: bool) -> Fragment:
    """The lake's part of a GROUP BY. What the files' bounds say of every row is not asked of each; corrections have no
    bounds."""
    known = lake.plan.data if lake is not None and not delta else None
    asked = [
        part
        for part in core.source.conditions
        if known is None or part.bound is None or not is_certain(known, part.bound[1])
    ]
    return merged("WITH {} {}", [source(made, lake, delta=delta, heap=False), core.over(core.source.where(asked))])


def combined(statement: Statement, core: Core) -> Fragment:
    """The statement over the parts that lake (`lk`) and heap (`hk`) computed."""
    casts = [_cast(name, kind) for name, kind in zip(core.names, core.kinds, strict=True)]
    both = [Fragment(", ".join(core.names) or "1"), Fragment(", ".join(casts) or "1")]
    parts = merged("(SELECT {} FROM lk UNION ALL SELECT {} FROM hk) AS parts", both)
    count = len(core.groups)
    listed = [Fragment(name) for name in core.names[:count]]
    for name, made in zip(core.names[count:], core.aggregates, strict=True):
        if made.combine is None:
            raise NotProvable("an aggregate that cannot be put together")
        listed.append(Fragment(made.combine.format(name)))
    return merged(
        f"WITH {CORE} AS NOT MATERIALIZED ({{}}) {{}}",
        [grouped(listed, core.names, parts, count), statement.query.duck],
    )
