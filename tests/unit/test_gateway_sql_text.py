"""The gateway reads statements as Postgres does: names, comments, nesting, and parts cut from the canonical text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlglot import exp

from thermocline.gateway.sql.pushdown.select import parse_select
from thermocline.gateway.sql.query.candidates import parse_canonical, read_candidate
from thermocline.gateway.sql.syntax import parsing
from thermocline.gateway.sql.syntax.statements import parse_sample, split_statements
from thermocline.gateway.sql.syntax.syntax_tree import flatten_operator, fold_identifier
from thermocline.gateway.sql.values import Constant, NotProvable, parse_value


def test_names_are_folded_and_cut_as_postgres_does() -> None:
    names = {"Orders": "orders", '"Orders"': "Orders", "ÄRGER": "Ärger", "a" * 70: "a" * 63, "ä" * 40: "ä" * 31}
    for spelled, meant in names.items():
        assert fold_identifier(parse_select(f"select {spelled} from t").expressions[0].this) == meant


def test_a_chain_of_conditions_is_taken_apart_without_recursion() -> None:
    tree = parse_select("select 1 from t where " + " or ".join(f"a = {number}" for number in range(5000)))
    assert len(flatten_operator(tree.args["where"].this, exp.Or)) == 5000


@pytest.mark.parametrize(
    "text",
    [
        "explain" + " " * 100_000 + "x",
        "explain" + " analyze" * 20_000 + " " * 50_000 + "x",
        "select 1" + " " * 100_000 + "x",
        "select 1" + " where" * 20_000,
        "select 1 where pg_catalog.random() < " + "1" * 100_000 + "x",
        "select 1 tablesample system(" + "1" * 100_000,
        "select " + "/*" * 50_000,
        "select " + "".join(f"$a{at}$" for at in range(20_000)),
        "9" * 100_000 + "x",
    ],
    ids=lambda text: f"{text[:20]}…{text[-8:]}",
)
def test_no_pattern_tries_the_same_characters_again_from_every_place(text: str) -> None:
    """Each took from seconds to minutes, in which no thread of the gateway runs."""
    assert len(split_statements(text)) == 1
    assert parse_sample(text) is None
    read_candidate(text)
    with suppress(NotProvable):
        parse_canonical(text)
    with pytest.raises(NotProvable):
        parse_value("double", Constant(text, "unknown"))


def test_a_comment_or_dollar_quote_without_an_end_reaches_to_the_end_of_the_text() -> None:
    assert split_statements("select 1 /* ; select 2") == ("select 1 /* ; select 2",)
    assert split_statements("select $a$ ; $b$ ; select 2") == ("select $a$ ; $b$ ; select 2",)
    assert split_statements("select $1$2; select $1") == ("select $1$2", "select $1")


@pytest.mark.parametrize("word", ["array[", "date (", "decimal(", "timestamp (", "id::int[", "geography[", "f("])
def test_no_nesting_is_parsed_in_more_steps_than_its_tokens_allow(word: str) -> None:
    """Some of these doubled the parser's steps with each level: thirty levels never ended."""
    close = {"[": "]", "(": ")"}[word[-1]]
    with suppress(NotProvable):
        parse_canonical(f"select count(*) from events where id = {word * 30}1{close * 30}")
    text = f"select count(*) from events where id = {word * 3}1{close * 3}"
    assert parsing.parse(text, parsing.read_tokens(text))


def test_a_part_of_a_statement_is_cut_in_its_own_words() -> None:
    text = "select max( ts )-interval '1 day ago' , shop  +1 /* a */ *2 from events"
    tree = parsing.parse(text, parsing.read_tokens(text))
    assert [parsing.source_text(text, part) for part in tree.expressions] == [
        "max( ts )-interval '1 day ago'",
        "shop  +1 /* a */ *2",
    ]
    with pytest.raises(NotProvable):
        parsing.source_text(text.replace("shop", "snow"), tree.expressions[1])
    with pytest.raises(NotProvable):
        parsing.source_text(text, exp.Literal.number(1))


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("x = ANY (ARRAY[(1)::bigint, '2'::bigint])", "x in (cast((1) as bigint), cast('2' as bigint))"),
        ("x <> ALL (ARRAY['a'::text])", "x not in (cast('a' as text))"),
    ],
)
def test_a_list_is_read_as_in_again(words: str, meaning: str) -> None:
    found = parse_canonical(f"select 1 from t where {words}").tree.args["where"].this
    assert isinstance(found, exp.In)
    assert found.args.get("negate", False) == ("not" in meaning)
    assert len(found.expressions) == meaning.count("cast")


@pytest.mark.parametrize("depth", [60, 1_000, 5_000])
def test_a_deep_statement_is_left_to_postgres(depth: int) -> None:
    for text in ("(" * depth + "1" + " + 1)" * depth, "(" + " OR ".join(["(a = 1)"] * depth) + ")"):
        with suppress(NotProvable):
            parse_canonical(f"select 1 from t where {text}")


@pytest.mark.parametrize("words", ["sum(a) is not null", "a + 1 is null", "(a) is not null", "(max(a) - 1) is null"])
def test_a_test_for_null_is_cut_with_its_operand(words: str) -> None:
    text = f"select {words}, 1 from events"
    assert parsing.source_text(text, parsing.parse(text, parsing.read_tokens(text)).expressions[0]) == words


@pytest.mark.parametrize("words", ["1 day 02:00", "1 day ago", ".5 day", "1 day 2", "@ 1 day", "1.5' hour + '1"])
def test_a_literal_that_the_tree_does_not_hold_as_written_is_not_followed(words: str) -> None:
    found = parse_canonical(f"select max(ts) - interval '{words}' from events")
    assert found.unsupported_reason is not None
    assert found.constants == ()


@pytest.mark.parametrize(
    "words", ["+'1'", "+ ('1')", "+$$1$$", "(+'1')", "+ +'1'", "- +'1'", "case when ok then +'1' end"]
)
def test_a_plus_sign_before_something_without_a_type_is_not_followed(words: str) -> None:
    found = parse_canonical(f"select count(*) from events where id = {words}")
    assert found.unsupported_reason is not None


@pytest.mark.parametrize(
    "words",
    [
        "+1",
        "+ .5",
        "+ qty",
        '+"qty"',
        "qty + (1)",
        "(qty)+(1)",
        "1 + (qty)",
        '"qty" +(1)',
        "$1 + (1)",
        "+ abs(qty)",
        "'2026-01-05'::timestamptz + '1 day'::interval",
        "current_date + '1 day'::interval",
        "now() + '1 day'::interval",
        "case when ok then 1 end + (1)",
        "'1'::double precision + (1)",
        "date '2026-01-05' + '1'",
    ],
)
def test_a_plus_sign_before_something_with_a_type_is_followed(words: str) -> None:
    found = parse_canonical(f"select count(*) from events where id = {words}")
    assert found.unsupported_reason is None
