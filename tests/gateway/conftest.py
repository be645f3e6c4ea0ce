"""A real Postgres 18 with postgres_fdw, a real gateway, and lake tables written by PyIceberg: no Spark needed."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from thermocline.catalog.migrate import apply_migrations
from thermocline.gateway.scram import make_verifier
from thermocline.gateway.server import GatewayThread, start_in_thread
from thermocline.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

LOGIN, PASSWORD = "postgres", "correct horse"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("gateway")


class _OneTableCatalog(NoopCatalog):  # type: ignore[misc]
    """Commits by writing the next metadata file; who points at it is the test's affair."""

    def __init__(self, directory: Path) -> None:
        super().__init__("test")
        self._directory = directory

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(table.metadata, updates)
        location = f"{self._directory}/metadata/{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
        return CommitTableResponse(metadata=metadata, metadata_location=location)


@dataclass
class Lake:
    """Lake tables in a temporary warehouse whose path has a space and a percent sign in it."""

    warehouse: Path
    conn: psycopg.Connection[Any]
    tables: dict[str, Table] = field(default_factory=dict)

    def create(self, name: str, schema: Schema, properties: dict[str, str] | None = None) -> Table:
        directory = self.warehouse / name
        metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{directory}", properties or {})
        location = f"file://{directory}/metadata/{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
        table = Table(("public", name), metadata, location, PyArrowFileIO(), _OneTableCatalog(directory))
        self.tables[name] = table
        self.conn.execute(
            "insert into thermocline.tables (schema_name, table_name, heap_oid, mode, pk, tier_key, key_type, lake_partition, lake_namespace,"
            " lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name)"
            " values ('public', %(n)s, 0, 'tiered', '{id}', 'id', 'bigint', '', 'public', %(n)s, %(u)s, %(l)s, 'public_all', %(n)s, '', '')",
            {"n": name, "u": metadata.table_uuid, "l": str(directory)},
        )
        self.conn.execute(
            "insert into thermocline_iceberg.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " values ('thermocline', 'public', %s, %s, 'TABLE')",
            (name, location),
        )
        return table

    def append(self, name: str, rows: pa.Table) -> int:
        """Adds a file of rows and publishes the new snapshot; returns its id."""
        table = self.tables[name]
        table.append(rows)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self.point_at(name, table.metadata_location)
        self.publish(name, snapshot.snapshot_id)
        return snapshot.snapshot_id

    def point_at(self, name: str, location: str) -> None:
        self.conn.execute("update thermocline_iceberg.iceberg_tables set metadata_location = %s where table_name = %s", (location, name))

    def publish(self, name: str, snapshot_id: int) -> None:
        self.conn.execute(
            "insert into thermocline.cutline (table_id, t, s, seam_line) select id, 0, %(s)s, 0 from thermocline.tables where table_name = %(n)s"
            " on conflict (table_id) do update set s = %(s)s",
            {"s": snapshot_id, "n": name},
        )

    def foreign_table(self, name: str, columns: str) -> None:
        """The foreign table `thermocline_lake.name`, as register makes it."""
        self.conn.execute(
            sql.SQL(
                "create foreign table thermocline_lake.{} ({}, _snapshot bigint) server thermocline_gateway"
                " options (schema_name 'public', table_name {})"
            ).format(sql.Identifier(name), sql.SQL(columns), sql.Literal(name))
        )

    def files(self, name: str) -> list[Path]:
        return sorted((self.warehouse / name / "data").glob("*.parquet"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    directory = Path(tempfile.mkdtemp(prefix="thermocline-gateway-"))
    directory.chmod(0o755)
    server = PostgresServer(directory / "pg", free_port(), FAST_TEST_SETTINGS, password=PASSWORD)
    server.init()
    server.start()
    yield server
    server.stop("immediate")
    server.remove()


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute("create database gateway_template")
    with psycopg.connect(postgres.dsn("gateway_template"), autocommit=True) as conn:
        apply_migrations(conn)
        conn.execute("create extension postgres_fdw")
        conn.execute("insert into thermocline.gateway_logins values (%s, %s)", (LOGIN, make_verifier(PASSWORD)))
    return "gateway_template"


@pytest.fixture
def database(postgres: PostgresServer, template: str) -> Iterator[str]:
    """The DSN of a fresh database."""
    name = f"gw_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    yield postgres.dsn(name)
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
def lake(conn: psycopg.Connection[Any], tmp_path: Path) -> Lake:
    return Lake(warehouse=tmp_path / "ware house%20", conn=conn)


def connect_server(conn: psycopg.Connection[Any], port: int) -> None:
    """The foreign server and the login of this test's role."""
    conn.execute(
        sql.SQL(
            "create server thermocline_gateway foreign data wrapper postgres_fdw options"
            " (host '127.0.0.1', port {}, dbname 'lake', fetch_size '1000', updatable 'false')"
        ).format(sql.Literal(str(port)))
    )
    conn.execute(
        sql.SQL("create user mapping for current_user server thermocline_gateway options (user {}, password {})").format(
            sql.Literal(LOGIN), sql.Literal(PASSWORD)
        )
    )


@pytest.fixture
def gateway(database: str, conn: psycopg.Connection[Any]) -> Iterator[GatewayThread]:
    with start_in_thread(database) as running:
        connect_server(conn, running.port)
        yield running


@pytest.fixture
def client(gateway: GatewayThread) -> Iterator[psycopg.Connection[Any]]:
    """A direct connection to the gateway."""
    with psycopg.connect(direct_dsn(gateway.port), autocommit=True) as client:
        yield client


def direct_dsn(port: int, *, user: str = LOGIN, password: str = PASSWORD) -> str:
    return psycopg.conninfo.make_conninfo(host="127.0.0.1", port=port, user=user, password=password, dbname="lake", connect_timeout=5)
