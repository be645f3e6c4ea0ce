"""Tables that several test files share: made once per run; each test leaves them unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.e2e.orders import ORDERS, ORDERS_ROWS
from tests.e2e.schema_change_table import PARTITIONS, ROWS, TABLE
from tests.twin import EVENTS_PARTITIONS, Spanning
from tests.twin_transaction import TwinTransaction, rolled_back_transaction, spanning_module

from thermocline.runtime.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def orders(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """Rows 1 to 179 lie below the cut-line in the lake alone, 180 to 200 at or above it."""
    with spanning_module(
        postgres,
        template,
        tmp_path_factory.mktemp("orders"),
        table=ORDERS,
        partitions=EVENTS_PARTITIONS,
        rows=ORDERS_ROWS,
    ) as spanning:
        spanning.tier()
        assert len(spanning.query("select relid from thermocline.partitions where state = 'dropped'")) == 3
        yield spanning


@pytest.fixture
def both_sides(orders: Spanning) -> Iterator[TwinTransaction]:
    """Both sides of the orders in one transaction, rolled back at the end."""
    with rolled_back_transaction(orders.dsn) as both_sides:
        for schema in ("public", "twin"):
            both_sides.conn.execute("select setval(pg_get_serial_sequence(%s, 'serial'), 1000)", [f"{schema}.events"])
            both_sides.conn.execute("select setval(%s, 1000)", [f"{schema}.numbers"])
        yield both_sides


@pytest.fixture(scope="session")
def columns(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    """January and February in the lake, March in the heap."""
    with make_clonable(
        postgres, template, tmp_path_factory.mktemp("columns"), table=TABLE, partitions=PARTITIONS, rows=ROWS
    ) as made:
        yield made


@pytest.fixture
def changing(columns: ClonableTable) -> Iterator[Spanning]:
    with columns.clone() as made:
        # A row that only the lake holds, one with a correction, a historical one in the spill, a hot one: every tier
        # has rows.
        made.both("update events set note = 'corrected' where id = 7 returning *")
        made.both("insert into events (id, ts, v) values (500, '2025-06-01', 5) returning *")
        yield made
