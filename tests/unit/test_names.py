"""Table names: read as Postgres reads them, shown as a person types them, joined without collisions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thermocline.core.names import (
    MAX_IDENTIFIER_BYTES,
    MAX_JOINED_BYTES,
    TableName,
    joined_name,
    parse_table_name,
    quote_name,
    suffixed,
)
from thermocline.errors import BadTableName

WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=40)
NAMES = st.builds(TableName, WORDS, WORDS)
TRICKY = st.builds(TableName, st.text("ab_", min_size=1, max_size=6), st.text("ab_", min_size=1, max_size=6))


@given(NAMES)
@example(TableName("public", "events"))
@example(TableName('a"b', "c.d"))
@example(TableName("É", "ÉVÉNEMENTS"))
def test_a_name_as_it_is_shown_reads_back_the_same(name: TableName) -> None:
    assert parse_table_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("public.events", "public", "events"),
        ("Public.EVENTS", "public", "events"),
        ('"Public".Events', "Public", "events"),
        (' public . "Ev ents" ', "public", "Ev ents"),
        ('"a.b"."c""d"', "a.b", 'c"d'),
        ("_x.y$1", "_x", "y$1"),
        ("ÉTÉ.ÀB", "ÉtÉ", "Àb"),
    ],
)
def test_a_name_is_folded_as_postgres_folds_it(text: str, schema: str, table: str) -> None:
    assert parse_table_name(text) == TableName(schema, table)


@pytest.mark.conforms("C-025")
@pytest.mark.parametrize(
    "text",
    ["", "events", "a.b.c", "a.", ".b", '"".b', '"a.b', "1a.b", "a b.c", 'a."b\x00"', "a.b;drop", "a.b--", "$a.b"],
)
def test_what_is_not_schema_and_table_is_refused(text: str) -> None:
    with pytest.raises(BadTableName) as refused:
        parse_table_name(text)
    assert (refused.value.code, refused.value.exit_code) == ("TC201", 2)
    assert repr(text) in str(refused.value)
    assert "schema.table" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "shown"),
    [("events", "events"), ("Events", '"Events"'), ("1st", '"1st"'), ("a b", '"a b"'), ('q"', '"q"""'), ("é", '"é"')],
)
def test_a_name_is_quoted_only_where_it_must_be(name: str, shown: str) -> None:
    assert quote_name(name) == shown


@pytest.mark.conforms("C-024")
@given(st.one_of(NAMES, TRICKY), st.one_of(NAMES, TRICKY))
@example(TableName("a_b", "c"), TableName("a", "b_c"))
@example(TableName("a__b", "c"), TableName("a", "b__c"))
@example(TableName("a_", "b"), TableName("a", "_b"))
@example(TableName("a", "b"), TableName("a", "B"))
@example(TableName("s", "t" * 63), TableName("s", "t" * 62 + "u"))
@example(TableName("s", "é" * 31), TableName("s", "é" * 30 + "è"))
def test_two_tables_never_share_the_name_of_their_objects(one: TableName, other: TableName) -> None:
    assert (joined_name(one) == joined_name(other)) == (one == other)


@given(NAMES)
@example(TableName("s" * 63, "t" * 63))
@example(TableName("日" * 21, "本" * 21))
def test_a_joined_name_leaves_room_for_suffixes_and_is_whole_text(name: TableName) -> None:
    joined = joined_name(name)
    assert len(joined.encode()) <= MAX_JOINED_BYTES
    assert len(f"{joined}_statement_cut".encode()) <= MAX_IDENTIFIER_BYTES
    assert "�" not in joined or "�" in name.schema + name.table


@given(WORDS, st.sampled_from(["all", "_spill"]))
def test_a_suffixed_name_fits_an_identifier_and_keeps_its_suffix(name: str, suffix: str) -> None:
    made = suffixed(name, suffix)
    assert len(made.encode()) <= MAX_IDENTIFIER_BYTES
    assert made.endswith(f"_{suffix}")
    assert name.startswith(made.removesuffix(f"_{suffix}"))
