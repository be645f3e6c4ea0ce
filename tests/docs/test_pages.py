"""A reader who follows README and the pages of docs/, command by command, gets through each of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.docs.page_run import Reader
from tests.docs.pages import BEFORE, README, SCENES, WITH_THE_STACK_OF_README, Page

from thermocline.runtime import artifacts
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.fixture(scope="module")
def reader(clusters: Path) -> Iterator[Reader]:
    """Has followed README from its first line, and has its stack."""
    made = Reader(directory=clusters / "reader", environment={"HOME": str(clusters / "home")})
    install_duckdb_extensions(clusters / "home")
    try:
        made.follow(README)
        stack = conninfo_to_dict(made.stack_dsn())
        made.addresses = {
            "/lakes/archive": str(clusters / "archive"),
            "/opt/jars": str(artifacts.spark_jar_paths()[0].parent),
            "/srv/lake": str(made.directory / ".thermocline" / "warehouse"),
            "db.example:5432/app": f"{stack['host']}:{stack['port']}/{stack['dbname']}",
        }
        yield made
    finally:
        made.shell("thermocline down")


def install_duckdb_extensions(home: Path) -> None:
    """The extensions that DuckDB's INSTALL would download, from the packages that hold them."""
    (platform,) = duckdb.sql("pragma platform").fetchall()[0]
    folder = home / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    for name in ("avro", "iceberg"):
        package = files(f"duckdb_extension_{name}") / "extensions"
        (found,) = Path(str(package)).glob(f"*/{name}.duckdb_extension")
        (folder / found.name).symlink_to(found)


@pytest.fixture(scope="module")
def readme_rows(reader: Reader) -> list[tuple[object, ...]]:
    """What README leaves: rows, whether the year that moved is still in the heap, the value of the corrected row."""
    with connect(reader.stack_dsn()) as conn:
        return conn.execute(
            "select count(*), to_regclass('public.events_2024') is null, max(v) filter (where id = 17)"
            " from public_all.events"
        ).fetchall()


def set_scene(reader: Reader, page: Page) -> None:
    """The tables of before.sql as the page takes them for granted, unless the page before left them so."""
    if reader.scene != page.scene:
        with connect(reader.stack_dsn()) as conn:  # lakes of registered tables, and those that `unregister` kept
            found = conn.execute("select table_namespace, table_name from thermocline_iceberg.iceberg_tables")
            tables = [f"{schema}.{name}" for schema, name in found if schema == "public"]
        for table in tables:
            unregister = f"thermocline unregister {table} --drop-lake --yes-drop {table}"
            # Corrections that wait, or the worker at work on the table, stop the command; then it is run again.
            reader.shell(f"{unregister} || {{ sleep 2; thermocline fold {table}; {unregister}; }}")
        with connect(reader.stack_dsn(), autocommit=True) as conn:
            conn.execute("drop table if exists public.events, public.orders, public.clicks cascade")
        reader.shell(f'psql -X -q -v ON_ERROR_STOP=1 "{reader.stack_dsn()}" -f {BEFORE}\n{SCENES[page.scene]}')
    reader.scene = page.scene if page.leaves_scene else None
    if page.before:
        reader.shell(page.before)


@pytest.mark.timeout(600)
def test_readme_leads_to_a_query_over_both_tiers(readme_rows: list[tuple[object, ...]]) -> None:
    assert readme_rows == [(900_000, True, 18)]


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("readme_rows")
@pytest.mark.parametrize("page", WITH_THE_STACK_OF_README, ids=lambda page: page.name)
def test_every_command_of_a_page_works_as_written(reader: Reader, page: Page) -> None:
    set_scene(reader, page)
    reader.follow(page.name)
