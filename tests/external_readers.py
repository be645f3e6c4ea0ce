"""External engines query the lake with conditions: DuckDB's own Iceberg reader, PyIceberg and Spark.

They see only the lake: rows below the cut-line, without pending corrections. What a condition finds must be what
the same condition finds among all rows of the lake once they are read without one: bounds, counts and dictionaries may
spare work, never a row.
"""

from __future__ import annotations

import importlib.util
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Literal

import duckdb
import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.expressions.literals import DateLiteral, TimeLiteral, TimestampLiteral, literal
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession
from tests.conditions import escape, render_differences, shorten

from thermocline.core.names import TableName
from thermocline.lake.commit.compare_and_swap import load_table

Op = Literal[
    "=", "<>", "<", "<=", ">", ">=", "is null", "is not null", "in", "not in", "starts with", "not starts with"
]
Value = bool | int | float | Decimal | str | bytes
Engine = Literal["duckdb", "pyiceberg", "spark"]

_OPS: dict[str, tuple[Op, ...]] = {
    "point": ("=", "<>"),
    "range": ("<", "<=", ">", ">="),
    "null": ("is null", "is not null"),
    "in": ("in", "not in"),
    "like": ("starts with", "not starts with"),
}
_TICKS = frozenset({"date", "time", "timestamp", "timestamptz"})


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of the lake, and values drawn from it. Dates are days, times and timestamps microseconds, UUIDs their
    bytes."""

    name: str
    kind: str
    type_text: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class LakeCondition:
    """`column op values`."""

    column: LakeColumn
    op: Op
    values: tuple[Value, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.column.name} {self.op} {', '.join(shorten(repr(value)) for value in self.values)} "
            f"({self.column.type_text})"
        )


@dataclass(frozen=True, slots=True)
class LakeAsked:
    """A lake table at its current metadata, with all rows as PyIceberg reads them without a condition."""

    table: StaticTable
    location: str
    key: str
    rows: pa.Table

    @classmethod
    def open(cls, spark: SparkSession, name: TableName, key: str = "id") -> LakeAsked:
        location = load_table(spark, name).metadata_location
        table = StaticTable.from_metadata(
            location.replace("file:/", "file:///", 1) if not location.startswith("file:///") else location
        )
        return cls(table, location.removeprefix("file://").removeprefix("file:"), key, table.scan().to_arrow())

    def columns(self, seed: int) -> tuple[LakeColumn, ...]:
        return tuple(_draw(field, self.rows.column(field.name), seed) for field in self.table.schema().fields)


def assert_outside_readers_agree(
    spark: SparkSession,
    name: TableName,
    *,
    turn: int = 0,
    each: int = 1,
    engines: Sequence[Engine] = ("duckdb", "pyiceberg"),
) -> None:
    """Every condition finds in the lake what it finds among all its rows, through each engine."""
    lake = LakeAsked.open(spark, name)
    conditions = plan_lake_conditions(lake.columns(turn), turn, each)
    readers: dict[Engine, Callable[[], list[tuple[Counter[Any], Counter[Any]]]]] = {
        "duckdb": lambda: _by_duckdb(lake, conditions),
        "pyiceberg": lambda: _by_pyiceberg(lake, conditions),
        "spark": lambda: _by_spark(spark, name, lake, conditions),
    }
    for engine in engines:
        answers = readers[engine]()
        wrong = [at for at, (expected, found) in enumerate(answers) if expected != found]
        if wrong:
            expected, found = answers[wrong[0]]
            missing, extra = list((expected - found).elements()), list((found - expected).elements())
            raise AssertionError(
                f"{len(wrong)} of {len(conditions)} conditions find other rows through {engine} (turn {turn}), "
                f"the first: {conditions[wrong[0]]}\n{render_differences(missing, extra)}"
            )


def plan_lake_conditions(columns: Sequence[LakeColumn], turn: int, each: int) -> tuple[LakeCondition, ...]:
    """For every column `each` conditions of every kind."""
    planned = []
    for column in columns:
        random = Random(f"{turn} {column.name}")
        for kind, ops in _OPS.items():
            for _ in range(each):
                op = random.choice(ops)
                if kind == "null":
                    planned.append(LakeCondition(column, op))
                elif kind == "like" and column.kind == "string":
                    text = str(random.choice([value for value in column.values if value] or ["x"]))
                    planned.append(LakeCondition(column, op, (text[: random.randint(1, len(text))],)))
                elif kind == "in":
                    some = random.sample(column.values, min(len(column.values), random.choice((2, 5))))
                    planned.append(LakeCondition(column, op, tuple(value for value in some if value == value)))
                elif kind != "like":
                    planned.append(LakeCondition(column, op, (random.choice(column.values),)))
    return tuple(condition for condition in planned if condition.values or "null" in condition.op)


def _draw(field: Any, rows: pa.ChunkedArray, seed: int) -> LakeColumn:
    kind = str(field.field_type).partition("(")[0].partition("[")[0]
    stored = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    if isinstance(stored, pa.ChunkedArray):
        stored = pa.concat_arrays(stored.chunks) if stored.num_chunks else pa.array([], stored.type)
    if isinstance(stored, pa.ExtensionArray):
        stored = stored.storage
    if kind == "date":
        stored = stored.cast(pa.int32())
    elif kind in _TICKS:
        stored = stored.cast(pa.int64())
    there = sorted({value for value in stored.to_pylist() if value is not None and value == value})
    random = Random(f"{seed} {field.name}")
    some = [*there[:1], *there[-1:], *random.sample(there, min(3, len(there)))]
    around = [beside for value in some for beside in _beside(kind, value, field.field_type)]
    awkward: tuple[Value, ...] = (math.nan, math.inf, -math.inf, 0.0, -0.0) if kind in ("float", "double") else ()
    nothing = Decimal(f"0E-{field.field_type.scale}") if kind == "decimal" else _NOTHING.get(kind, 0)
    values = tuple(dict.fromkeys([*some, *around, *awkward])) or (nothing,)
    return LakeColumn(field.name, kind, str(field.field_type), values)


_NOTHING: dict[str, Value] = {
    "boolean": True,
    "float": 0.0,
    "double": 0.0,
    "string": "x",
    "binary": b"x",
    "uuid": bytes(16),
}
"""What a column without values is asked for."""


def _beside(kind: str, value: Any, lake_type: Any) -> Iterator[Value]:
    match kind:
        case "boolean":
            yield not value
        case "int" | "date":
            yield from (beside for beside in (value - 1, value + 1, value // 2) if -(2**31) <= beside < 2**31)
        case "time":
            yield from (beside for beside in (value - 1, value + 1) if 0 <= beside < 86_400_000_000)
        case "long" | "timestamp" | "timestamptz":
            yield from (beside for beside in (value - 1, value + 1, value // 2) if -(2**63) <= beside < 2**63)
        case "decimal":
            digits = int("".join(map(str, value.as_tuple().digits))) * (-1 if value.is_signed() else 1)
            fitting = (beside for beside in (digits - 1, digits + 1, -digits) if abs(beside) < 10**lake_type.precision)
            yield from (Decimal(f"{beside}E-{lake_type.scale}") for beside in fitting)
        case "string":
            yield from (value + "a", value + "\U0010ffff", value[:-1], value[: len(value) // 2])
        case "binary":
            yield from (value + b"\0", value[:-1])
        case "uuid":
            yield from (bytes(16), b"\x80" + bytes(15), b"\xff" * 16)


def _by_duckdb(lake: LakeAsked, conditions: Sequence[LakeCondition]) -> list[tuple[Counter[Any], Counter[Any]]]:
    with closing(duckdb.connect(":memory:", config={"autoload_known_extensions": "false"})) as conn:
        for name in ("avro", "iceberg"):
            spec = importlib.util.find_spec(f"duckdb_extension_{name}")
            assert spec is not None
            assert spec.origin is not None
            conn.load_extension(str(next(Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension"))))
        conn.execute("set timezone = 'UTC'")
        source = f"iceberg_scan('{lake.location.replace(chr(39), chr(39) * 2)}')"
        conn.execute(f"create table whole as select * from {source}")
        assert conn.execute("select count(*) from whole").fetchall() == [(lake.rows.num_rows,)]
        answers = []
        for condition in conditions:
            text, values = _duckdb_text(condition)
            both = [
                conn.execute(f'select "{lake.key}" from {place} where {text}', values).fetchall()
                for place in ("whole", source)
            ]
            answers.append((Counter(both[0]), Counter(both[1])))
        return answers


def _duckdb_text(condition: LakeCondition) -> tuple[str, list[Value]]:
    name, kind = '"' + condition.column.name.replace('"', '""') + '"', condition.column.kind
    return _text(
        condition,
        name,
        _DUCKDB.get(kind, "?"),
        lambda value: str(value) if isinstance(value, Decimal) else _plain(kind, value),
    )


_DUCKDB = {
    "boolean": "?::boolean",
    "int": "?::integer",
    "long": "?::bigint",
    "float": "?::float",
    "double": "?::double",
    "decimal": "?::{type}",
    "date": "(date '1970-01-01' + ?::integer)",
    "time": "(time '00:00:00' + to_microseconds(?::bigint))",
    "timestamp": "make_timestamp(?::bigint)",
    "timestamptz": "make_timestamptz(?::bigint)",
    "uuid": "?::uuid",
    "binary": "?::blob",
    "string": "?::varchar",
}


def _plain(kind: str, value: Value) -> Value:
    return str(uuid.UUID(bytes=value)) if kind == "uuid" and isinstance(value, bytes) else value


def _text(condition: LakeCondition, name: str, holder: str, plain: Callable[[Value], Any]) -> tuple[str, list[Any]]:
    """The condition with placeholders, and their values."""
    holder = holder.replace("{type}", condition.column.type_text)
    values = [plain(value) for value in condition.values]
    match condition.op:
        case "is null" | "is not null":
            return f"{name} {condition.op}", []
        case "in" | "not in":
            return f"{name} {condition.op} ({', '.join([holder] * len(values))})", values
        case "starts with" | "not starts with":
            word = condition.op.removesuffix("starts with") + "like"
            return f"{name} {word} {holder} escape '\\'", [escape(str(values[0])) + "%"]
    return f"{name} {condition.op} {holder}", values


def _by_pyiceberg(lake: LakeAsked, conditions: Sequence[LakeCondition]) -> list[tuple[Counter[Any], Counter[Any]]]:
    """PyIceberg has no NaN in conditions and finds it by no comparison, so both sides are judged by its own; it cannot
    compare UUIDs."""
    answers = []
    for condition in conditions:
        if condition.column.kind == "uuid" or any(value != value for value in condition.values):
            answers.append((Counter[Any](), Counter[Any]()))
            continue
        asked = _expression(condition)
        bound = bind(lake.table.schema(), asked, case_sensitive=True)
        expected = lake.rows.filter(expression_to_pyarrow(bound))
        found = lake.table.scan(row_filter=asked, selected_fields=(lake.key,)).to_arrow()
        answers.append((Counter(expected.column(lake.key).to_pylist()), Counter(found.column(lake.key).to_pylist())))
    return answers


def _expression(condition: LakeCondition) -> expressions.BooleanExpression:
    ice: Any = expressions  # its predicates are declared as data, and their own way of being made is not
    name, kind = condition.column.name, condition.column.kind
    made: dict[str, Callable[[Any], Any]] = {
        "date": DateLiteral,
        "time": TimeLiteral,
        "timestamp": TimestampLiteral,
        "timestamptz": TimestampLiteral,
        "uuid": lambda value: literal(uuid.UUID(bytes=value)),
    }
    values = [made.get(kind, literal)(value) for value in condition.values]
    verbs: dict[str, Any] = {
        "is null": ice.IsNull,
        "is not null": ice.NotNull,
        "in": ice.In,
        "not in": ice.NotIn,
        "=": ice.EqualTo,
        "<>": ice.NotEqualTo,
        "<": ice.LessThan,
        "<=": ice.LessThanOrEqual,
        ">": ice.GreaterThan,
        ">=": ice.GreaterThanOrEqual,
        "starts with": ice.StartsWith,
        "not starts with": ice.NotStartsWith,
    }
    operands = [values] if condition.op in ("in", "not in") else values
    made_of: expressions.BooleanExpression = verbs[condition.op](name, *operands)
    return made_of


_SPARK = {
    "boolean": "cast({} as boolean)",
    "int": "cast({} as int)",
    "long": "cast({} as bigint)",
    "float": "cast({} as float)",
    "double": "cast({} as double)",
    "decimal": "cast({} as {type})",
    "date": "date_from_unix_date(cast({} as int))",
    "timestamp": "cast(timestamp_micros(cast({} as bigint)) as timestamp_ntz)",
    "timestamptz": "timestamp_micros(cast({} as bigint))",
    "uuid": "{}",
    "binary": "{}",
    "string": "{}",
}


def _by_spark(
    spark: SparkSession, name: TableName, lake: LakeAsked, conditions: Sequence[LakeCondition]
) -> list[tuple[Counter[Any], Counter[Any]]]:
    """One statement for all conditions; what it must find is what it finds in a copy of all rows, which has no bounds
    to go by."""
    table = f"thermocline.`{name.schema}`.`{name.table}`"
    spark.sql(f"refresh table {table}")
    whole = spark.table(table).localCheckpoint()
    whole.createOrReplaceTempView("whole")
    found: list[dict[int, Counter[Any]]] = []
    for place in ("whole", table):
        branches, values = [], []
        for number, condition in enumerate(conditions):
            column = "`" + condition.column.name.replace("`", "``") + "`"
            holder = _SPARK[condition.column.kind].replace("{}", "?")
            kind = condition.column.kind
            text, more = _text(condition, column, holder, lambda value, kind=kind: _spark_value(kind, value))  # type: ignore[misc]
            branches.append(
                f"select {number} n, collect_list(`{lake.key}`) k from {place} where "
                f"{text.replace(chr(92), chr(92) * 2)}"
            )
            values += more
        rows = spark.sql(" union all ".join(branches), args=values).collect()
        found.append({row.n: Counter(row.k) for row in rows})
    spark.catalog.dropTempView("whole")
    return [(found[0][number], found[1][number]) for number in range(len(conditions))]


def _spark_value(kind: str, value: Value) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if kind == "binary" and isinstance(value, bytes):
        return bytearray(value)
    return _plain(kind, value)
