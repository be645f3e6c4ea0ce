"""A table is named as in psql: qualified, or found by the login's search_path."""

from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo
from tests.commands import run_command
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.catalog.table_names import resolve_table_name
from thermocline.core.names import TableName
from thermocline.errors import BadTableName, TableNotFound


def with_path(shop: Shop, path: str) -> str:
    return make_conninfo(shop.dsn, options=f"-c search_path={path}")


@pytest.mark.conforms("O-003")
def test_a_name_alone_is_the_table_that_the_search_path_finds_first(shop: Shop) -> None:
    shop.run("create schema app", "create table app.events (id int)", 'create table public."Ev ents" (id int)', *EVENTS)
    assert resolve_table_name(with_path(shop, "app,public"), "events") == TableName("app", "events")
    assert resolve_table_name(with_path(shop, "public,app"), "EVENTS") == TableName("public", "events")
    assert resolve_table_name(shop.dsn, '"Ev ents"') == TableName("public", "Ev ents")
    assert resolve_table_name("host=127.0.0.1 port=1", "app.events") == TableName("app", "events")


def test_a_seam_that_the_search_path_finds_first_stands_for_its_table(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register()
    assert resolve_table_name(with_path(shop, "public_all,public"), "events") == TableName("public", "events")


def test_a_name_that_is_not_found_is_refused_with_the_nearest_registered_table(shop: Shop) -> None:
    shop.run(*EVENTS)
    with pytest.raises(TableNotFound, match=r"There is no table evnets in the search_path \(public\)") as refused:
        resolve_table_name(shop.dsn, "evnets")
    assert refused.value.hint == BadTableName.hint
    shop.register()
    with pytest.raises(TableNotFound) as refused:
        resolve_table_name(shop.dsn, "public_evnets")
    assert refused.value.hint == "Did you mean public.events?"
    with pytest.raises(TableNotFound) as refused:
        resolve_table_name(with_path(shop, "pg_catalog"), "events")
    assert refused.value.hint == "Did you mean public.events?"
    with pytest.raises(BadTableName):
        resolve_table_name(shop.dsn, "1events; drop table x")


@pytest.mark.parametrize(
    "command", ["show", "pause", "resume", "pins", "advise", "sync-grants", "policy", "tier --dry-run"]
)
def test_every_command_takes_a_name_alone(shop: Shop, capsys: pytest.CaptureFixture[str], command: str) -> None:
    shop.run(*EVENTS)
    shop.register()
    verb, *flags = command.split()
    where = ["--dsn", shop.dsn, "--dir", str(shop.settings.dir)]
    done = run_command(capsys, verb, "events", *flags, *where, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document() == [] if command == "pins" else "public.events" in done.out


@pytest.mark.parametrize(
    ("words", "completed"),
    [("show ", "events\npublic.events"), ("show ev", "events"), ("show public.e", "public.events"), ("show x", "")],
)
def test_a_shell_completes_registered_tables_and_says_nothing_where_it_cannot(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, completed: str
) -> None:
    shop.run(*EVENTS)
    shop.register()
    for dsn, expected in ((shop.dsn, completed), ("host=127.0.0.1 port=1", "")):
        monkeypatch.setenv("THERMOCLINE_DSN", dsn)
        monkeypatch.setenv("_THERMOCLINE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", f"thermocline {words}")
        monkeypatch.setenv("COMP_CWORD", "2")
        done = run_command(capsys)
        assert (done.out.strip(), done.err) == (expected, "")


def test_a_lake_table_that_is_not_found_is_refused_with_the_nearest_one(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.run(*EVENTS)
    shop.register()
    where = ["--dsn", shop.dsn, "--dir", str(shop.settings.dir), "--json"]
    for name, hint in (
        ("public.evnets", "Did you mean public.events?"),
        ("sales.orders", "Check the namespace and the spelling."),
    ):
        refused = run_command(capsys, "lake", "add", name, *where)
        assert refused.code == 3
        assert f'"code": "TC307", "message": "There is no Iceberg table {name} in the catalog.", "hint": "{hint}"' in (
            refused.err
        )
