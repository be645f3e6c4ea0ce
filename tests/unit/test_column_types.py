"""Which Iceberg type holds a Postgres column, and which columns the lake cannot hold."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import KeyType
from thermocline.core.columns import HeapColumn, lake_type_of, plan_lake_columns, why_not_held
from thermocline.core.tier_key import key_type_of, why_not_partitioned


def column(
    base_type: str, precision: int | None = None, scale: int | None = None, made_of: tuple[str, ...] = ()
) -> HeapColumn:
    return HeapColumn(
        name="c",
        attnum=1,
        base_type=base_type,
        pg_type=base_type,
        not_null=False,
        numeric_precision=precision,
        numeric_scale=scale,
        made_of=made_of,
    )


@pytest.mark.conforms("C-032")
@pytest.mark.parametrize(
    ("base_type", "lake_type"),
    [
        ("bool", "boolean"),
        ("int2", "int"),
        ("int4", "int"),
        ("int8", "long"),
        ("float4", "float"),
        ("float8", "double"),
        ("date", "date"),
        ("time", "time"),
        ("timestamp", "timestamp"),
        ("timestamptz", "timestamptz"),
        ("uuid", "uuid"),
        ("bytea", "binary"),
        ("text", "string"),
        ("varchar", "string"),
    ],
)
def test_a_type_with_an_exact_twin_is_native(base_type: str, lake_type: str) -> None:
    assert lake_type_of(column(base_type)) == (lake_type, "native")


@pytest.mark.parametrize(
    "base_type",
    [
        "bpchar",
        "json",
        "jsonb",
        "interval",
        "inet",
        "_int4",
        "timetz",
        "xml",
        "int4range",
        "public.mood",
        "public.text",
        "public.date",
        "x.int8",
    ],
)
def test_every_other_type_is_held_as_text_also_one_that_borrows_a_native_name(base_type: str) -> None:
    assert lake_type_of(column(base_type)) == ("string", "text")


@pytest.mark.conforms("C-032")
@given(st.integers(1, 1000), st.integers(-1000, 1000))
def test_a_numeric_is_a_decimal_that_holds_it_or_text_and_never_a_double(precision: int, scale: int) -> None:
    lake_type, form = lake_type_of(column("numeric", precision, scale))
    if precision <= 38 and 0 <= scale <= precision:
        assert (lake_type, form) == (f"decimal({precision}, {scale})", "native")
    else:
        assert (lake_type, form) == ("string", "text")


def test_an_unconstrained_numeric_is_held_as_text() -> None:
    assert lake_type_of(column("numeric")) == ("string", "text")


@pytest.mark.conforms("C-032", "C-171")
@pytest.mark.parametrize(
    "refused",
    [
        column("money"),
        column("_money"),
        column("regclass"),
        column("regrole"),
        column("aclitem"),
        column("gtsvector"),
        column("pg_ndistinct"),
        column("public.cash", made_of=("money",)),
        column("public.line", made_of=("int4", "regclass")),
    ],
)
def test_a_type_without_a_faithful_text_form_is_refused_wherever_it_hides(refused: HeapColumn) -> None:
    reason = why_not_held(refused)
    assert reason is not None
    assert f"column c has type {refused.pg_type}" in reason


@pytest.mark.parametrize(
    "name",
    ["public.region", "public.money", "shop.registration", "oid", "pg_lsn", "xid8", "name", "char", "public.record"],
)
def test_a_name_that_only_looks_like_one_is_held(name: str) -> None:
    assert why_not_held(column(name, made_of=("text",))) is None


def test_lake_columns_keep_the_order_and_count_field_ids_and_require_the_key() -> None:
    heap = tuple(
        dataclasses.replace(column("int4"), name=name, attnum=at) for name, at in (("a", 1), ("b", 3), ("c", 7))
    )
    planned = plan_lake_columns(heap, ("c", "a"))
    assert [(c.name, c.field_id, c.required) for c in planned] == [("a", 1, True), ("b", 2, False), ("c", 3, True)]


@pytest.mark.conforms("C-016")
def test_six_types_can_be_a_tier_key() -> None:
    found = {key_type_of(name) for name in ("int2", "int4", "int8", "date", "timestamp", "timestamptz")}
    assert found == set(KeyType)
    assert [key_type_of(name) for name in ("numeric", "text", "uuid", "time", "public.date")] == [None] * 5


@pytest.mark.conforms("C-026")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ((None, None, 0, False), "it is not partitioned"),
        (("l", "LIST (kind)", 1, False), "it is partitioned by LIST (kind), not by RANGE"),
        (("h", "HASH (id)", 1, False), "it is partitioned by HASH (id), not by RANGE"),
        (("r", "RANGE (a, b)", 2, False), "it is partitioned by several columns: RANGE (a, b)"),
        (("r", "RANGE (lower(a))", 1, True), "it is partitioned by an expression: RANGE (lower(a))"),
        (("r", "RANGE (ts)", 1, False), None),
    ],
)
def test_the_reason_names_the_partition_key_found(
    facts: tuple[str | None, str | None, int, bool], reason: str | None
) -> None:
    assert why_not_partitioned(*facts) == reason
