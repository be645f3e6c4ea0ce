"""Statements made from Postgres' own catalogs: the gateway's answers are Postgres', byte for byte.

`THERMOCLINE_TEST_FUZZ_STATEMENTS` and `THERMOCLINE_TEST_FUZZ_SECONDS` let it run longer, and
`THERMOCLINE_TEST_FUZZ_SEED` makes other statements; a failure prints the seed and the smallest statement that differs.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest
from tests.gateway.conftest import fresh_database
from tests.gateway.fuzz.catalog import read_catalog
from tests.gateway.fuzz.odd_table import open_odd_table
from tests.gateway.fuzz.oracle import BinaryForms, Difference, open_oracle
from tests.gateway.fuzz.pieces import text
from tests.gateway.fuzz.shrinker import shrink
from tests.gateway.fuzz.statements import PLAIN, Case, draw_case
from tests.gateway.fuzz.value_formats import draw_samples, read_printed
from tests.twin import Spanning

from thermocline.gateway.wire.binary_format import to_binary
from thermocline.gateway.wire.row_encoding import to_text
from thermocline.runtime.postgres_server import PostgresServer

SEED = int(os.environ.get("THERMOCLINE_TEST_FUZZ_SEED", "15"))
SECONDS = float(os.environ.get("THERMOCLINE_TEST_FUZZ_SECONDS", "0"))
STATEMENTS = int(os.environ.get("THERMOCLINE_TEST_FUZZ_STATEMENTS", "0" if SECONDS else "2000"))
FEWEST_BY_DUCKDB = 0.12
"""The share of statements that DuckDB has to answer itself: those left to Postgres prove the relay only."""
MOST_SHRUNK = 40
VALUES_PER_TYPE = 200_000 if SECONDS else 3_000


KNOWN = (
    # DuckDB's calendar goes further back: 22008 in Postgres.
    "select id from events where large = 9223372036854775807 and day - events >= day",
)
"""Statements that the fuzzer found and that still differ. A case that is mended fails here: move it to FOUND."""
FOUND = (
    # The date itself was printed: 5877586-06-24 BC.
    "select id, day - events from events where large = 9223372036854775807",
)
"""Statements that the fuzzer found, and that are mended."""


@pytest.fixture(scope="module")
def table(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    with fresh_database(postgres, template) as dsn, open_odd_table(dsn, tmp_path_factory.mktemp("fuzz")) as made:
        yield made


@pytest.mark.conforms("O-172")
@pytest.mark.timeout(0 if SECONDS or STATEMENTS > 2000 else 600)
def test_statements_from_the_catalogs_have_the_answers_of_postgres(table: Spanning) -> None:
    until = time.monotonic() + (SECONDS or float("inf"))
    with psycopg.connect(table.dsn, autocommit=True) as conn, open_oracle(table) as oracle:
        catalog, binary_forms = read_catalog(conn), BinaryForms(conn)
        found: list[Difference] = []
        for number in itertools.islice(itertools.count(), STATEMENTS or None):
            if time.monotonic() > until or len(found) == MOST_SHRUNK:
                break
            difference = oracle.compare(draw_case(SEED, number, catalog, binary_forms))
            if difference is not None:
                found.append(difference)
        told = f"seed {SEED}, {catalog.signature_count} signatures, {oracle.tally}, {len(found)} differ"
        print(told)
        shrunk = [str(shrink(oracle, difference)) for difference in found]
    assert not found, told + "\n" + "\n".join(dict.fromkeys(shrunk))
    assert oracle.tally.answered_by_duckdb >= FEWEST_BY_DUCKDB * oracle.tally.statements, told


@pytest.mark.parametrize(
    "statement", [*FOUND, *(pytest.param(one, marks=pytest.mark.xfail(reason="known", strict=True)) for one in KNOWN)]
)
def test_what_the_fuzzer_found_has_the_answer_of_postgres(table: Spanning, statement: str) -> None:
    case = Case(number=0, statement=text(statement), settings=PLAIN, path="{}", channel="simple", is_binary=False)
    with open_oracle(table) as oracle:
        assert (difference := oracle.compare(case)) is None, str(difference)


@pytest.mark.conforms("O-172")
def test_values_of_every_type_are_printed_as_postgres_prints_them(postgres: PostgresServer) -> None:
    found = []
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute("set timezone = 'UTC'")
        for sample in draw_samples(SEED, VALUES_PER_TYPE):
            printed, binary = read_printed(conn, sample)
            for form, theirs, ours in (
                ("text", printed, to_text(sample.column).cast(pa.large_binary())),
                ("binary", binary, to_binary(sample.column, sample.type_oid)),
            ):
                found += [
                    f"{sample.type_name} as {form}: {here!r}, and Postgres prints {there!r}"
                    for here, there in zip(ours.to_pylist(), theirs, strict=True)
                    if here != there
                ]
    assert not found, f"{len(found)} values\n" + "\n".join(found[:20])
