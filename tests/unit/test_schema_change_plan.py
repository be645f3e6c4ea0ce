"""What the lake's schema needs for the columns requested for: by the fields' numbers, never by their names."""

from __future__ import annotations

import pytest

from thermocline.core.columns import LakeColumn
from thermocline.core.plan.schema_change import (
    FieldChange,
    LakeSchemaRefusal,
    SchemaField,
    can_promote,
    iceberg_default,
    plan_lake_schema,
    render_change,
)


def column(field_id: int, name: str, lake_type: str = "int") -> LakeColumn:
    return LakeColumn(
        name=name,
        field_id=field_id,
        base_type="int4",
        pg_type="integer",
        lake_type=lake_type,
        form="native",
        required=False,
    )


FIELDS = (
    SchemaField(field_id=1, name="id", lake_type="long"),
    SchemaField(field_id=2, name="v", lake_type="int"),
    SchemaField(field_id=3, name="amount", lake_type="decimal(10, 2)"),
)


def test_the_same_columns_need_nothing_however_types_are_spaced() -> None:
    assert (
        plan_lake_schema(FIELDS, 3, (column(1, "id", "long"), column(2, "v"), column(3, "amount", "decimal(10,2)")))
        == ()
    )


def test_changes_come_in_an_order_in_which_names_never_clash() -> None:
    plan = plan_lake_schema(FIELDS, 3, (column(1, "v", "long"), column(3, "id", "decimal(12, 2)"), column(4, "amount")))
    assert isinstance(plan, tuple)
    assert [render_change(change) for change in plan] == [
        "column v dropped from the lake's schema",
        "column id of the lake renamed to v",
        "column amount of the lake renamed to id",
        "column id of the lake widened from decimal(10, 2) to decimal(12, 2)",
        "column amount int added to the lake",
    ]
    assert plan[0] == FieldChange(kind="drop", field_id=2, name="v")


def test_a_number_that_others_used_is_not_taken() -> None:
    plan = plan_lake_schema(FIELDS, 4, (column(1, "id", "long"), column(4, "new")))
    assert plan == LakeSchemaRefusal(reason="field 4 of the lake, wanted for column new, was used by others")


def test_a_type_iceberg_cannot_promote_is_named() -> None:
    plan = plan_lake_schema(FIELDS, 3, (column(1, "id", "int"), column(2, "v"), column(3, "amount", "decimal(10, 2)")))
    assert plan == LakeSchemaRefusal(reason="column id is long in the lake and cannot become int")


@pytest.mark.parametrize(
    ("held", "requested", "can"),
    [
        ("int", "long", True),
        ("long", "int", False),
        ("float", "double", True),
        ("decimal(10, 2)", "decimal(38, 2)", True),
        ("decimal(10, 2)", "decimal(12, 3)", False),
        ("decimal(10, 2)", "decimal(9, 2)", False),
        ("int", "string", False),
    ],
)
def test_promotions_are_those_that_keep_every_value(held: str, requested: str, can: bool) -> None:
    assert can_promote(held, requested) is can


@pytest.mark.parametrize(
    ("text", "lake_type", "told"),
    [
        ("t", "boolean", True),
        ("f", "boolean", False),
        ("12:30:00.25", "time", 45_000_250_000),
        ("\\x00ff", "binary", "00ff"),
        ("7", "int", "7"),
    ],
)
def test_a_missing_value_in_icebergs_words(text: str, lake_type: str, told: object) -> None:
    assert iceberg_default(text, lake_type) == told
