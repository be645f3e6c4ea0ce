"""A real Postgres 18 with postgres_fdw, a real gateway, and lake tables written by PyIceberg: no Spark needed."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Context
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.typedef import Record
from tests.gateway.whole_lake import open_lake
from tests.twin import Spanning

from thermocline.catalog.migrate import apply_migrations
from thermocline.gateway.server import GatewayThread, start_in_thread
from thermocline.gateway.wire.scram import make_verifier
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

LOGIN, PASSWORD = "postgres", "correct horse"


class _OneTableCatalog(NoopCatalog):
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
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


class _DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes data manifests only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _as_written(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column.cast(kind) if column.type != kind else column


def _data_file(path: Path, rows: pa.Table, table: Table) -> DataFile:
    """The file's manifest entry with exact bounds; written out here because PyIceberg cannot hold dates beyond the year
    9999."""
    nulls, lower, upper = {}, {}, {}
    for field_, column in zip(table.schema().fields, rows.columns, strict=True):
        nulls[field_.field_id] = column.null_count
        ends = _ends(column)
        if ends is not None:
            lower[field_.field_id], upper[field_.field_id] = ends
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=path.stat().st_size,
        null_value_counts=nulls,
        lower_bounds=lower,
        upper_bounds=upper,
        spec_id=0,
    )


def _ends(column: pa.ChunkedArray) -> tuple[bytes, bytes] | None:
    kind = column.type
    if pa.types.is_floating(kind):
        finite = [value for value in column.to_pylist() if value is not None and value == value]
        code = "<f" if pa.types.is_float32(kind) else "<d"
        return (struct.pack(code, min(finite)), struct.pack(code, max(finite))) if finite else None
    if pa.types.is_decimal(kind):
        numbers = [int(value.scaleb(kind.scale, _WIDE)) for value in column.to_pylist() if value is not None]
        encode = partial(int.to_bytes, length=16, byteorder="big", signed=True)
        return (encode(min(numbers)), encode(max(numbers))) if numbers else None
    if pa.types.is_boolean(kind):
        flags = [value for value in column.to_pylist() if value is not None]
        return (bytes([min(flags)]), bytes([max(flags)])) if flags else None
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        width = kind.bit_width // 8
        ends = pc.min_max(column.cast(pa.int32() if width == 4 else pa.int64())).as_py()
        encode = partial(int.to_bytes, length=width, byteorder="little", signed=True)
        return None if ends["min"] is None else (encode(ends["min"]), encode(ends["max"]))
    if pa.types.is_string(kind):
        ends = pc.min_max(column).as_py()
        return None if ends["min"] is None else (ends["min"].encode(), ends["max"].encode())
    plain = column.combine_chunks().storage if isinstance(kind, pa.UuidType) else column
    texts = [value.encode() if isinstance(value, str) else value for value in plain.to_pylist() if value is not None]
    return (min(texts), max(texts)) if texts else None


_WIDE = Context(prec=60)


@dataclass
class Lake:
    """Lake tables in a temporary warehouse whose path has a space and a percent sign in it."""

    warehouse: Path
    conn: psycopg.Connection[Any]
    tables: dict[str, Table] = field(default_factory=dict)

    def create(self, name: str, schema: Schema, properties: dict[str, str] | None = None) -> Table:
        directory = self.warehouse / name
        metadata = new_table_metadata(
            schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{directory}", properties or {}
        )
        location = f"file://{directory}/metadata/{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
        table = Table(("public", name), metadata, location, PyArrowFileIO(), _OneTableCatalog(directory))
        self.tables[name] = table
        self.conn.execute(
            "insert into thermocline.tables (schema_name, table_name, heap_oid, mode, pk, tier_key, "
            "key_type, lake_partition,"
            " lake_namespace, lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name)"
            " values ('public', %(n)s, 0, 'tiered', '{id}', 'id', 'bigint', '',"
            " 'public', %(n)s, %(u)s, %(l)s, 'public_all', %(n)s, '', '')",
            {"n": name, "u": metadata.table_uuid, "l": str(directory)},
        )
        self.conn.execute(
            "insert into thermocline_iceberg.iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, iceberg_type)"
            " values ('thermocline', 'public', %s, %s, 'TABLE')",
            (name, location),
        )
        return table

    def append(self, name: str, rows: pa.Table, *, row_group_rows: int = 100_000) -> int:
        """Adds a file of rows and publishes the new snapshot; returns its id."""
        table = self.tables[name]
        path = self.warehouse / name / "data" / f"{uuid.uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
        rows = pa.table(
            [_as_written(column, field.type) for column, field in zip(rows.columns, schema, strict=True)], schema=schema
        )
        pq.write_table(rows, path, row_group_size=row_group_rows, write_page_index=True)
        with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
            snapshot.append_data_file(_data_file(path, rows, table))
        current = table.current_snapshot()
        assert current is not None
        self.point_at(name, table.metadata_location)
        self.publish(name, current.snapshot_id)
        return current.snapshot_id

    def delete_positions(self, name: str, file: Path, positions: list[int]) -> int:
        """Adds a position-delete file for rows of a data file and publishes the new snapshot; returns its id."""
        path = self.warehouse / name / "data" / f"{uuid.uuid4()}-deletes.parquet"
        rows = pa.table(
            [pa.array([f"file://{file}"] * len(positions)), pa.array(positions, pa.int64())],
            schema=pa.schema(
                [
                    pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
                    pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
                ]
            ),
        )
        pq.write_table(rows, path)
        return self._commit_deletes(name, path, DataFileContent.POSITION_DELETES, len(positions))

    def delete_equal(self, name: str, rows: pa.Table) -> int:
        """Adds an equality-delete file over the columns of `rows` and publishes the new snapshot; returns its id."""
        schema = self.tables[name].schema().select(*rows.column_names)
        path = self.warehouse / name / "data" / f"{uuid.uuid4()}-deletes.parquet"
        written = schema_to_pyarrow(schema, include_field_ids=True)
        pq.write_table(pa.table([_as_written(rows[f.name], f.type) for f in written], schema=written), path)
        ids = [field_.field_id for field_ in schema.fields]
        return self._commit_deletes(name, path, DataFileContent.EQUALITY_DELETES, rows.num_rows, ids)

    def _commit_deletes(
        self, name: str, path: Path, content: DataFileContent, count: int, ids: list[int] | None = None
    ) -> int:
        table, snapshot_id = self.tables[name], uuid.uuid4().int >> 66
        parent = table.current_snapshot()
        assert parent is not None
        sequence = (parent.sequence_number or 0) + 1
        place = f"file://{self.warehouse / name}/metadata"
        writer = _DeleteManifestWriter(
            table.spec(),
            table.schema(),
            PyArrowFileIO().new_output(f"{place}/{uuid.uuid4()}.avro"),
            snapshot_id,
            "deflate",
        )
        deletes = DataFile.from_args(
            content=content,
            file_path=f"file://{path}",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=count,
            file_size_in_bytes=path.stat().st_size,
            spec_id=0,
            equality_ids=ids,
        )
        with writer:
            writer.add_entry(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=deletes)
            )
        listed = f"{place}/snap-{snapshot_id}.avro"
        with write_manifest_list(
            2, PyArrowFileIO().new_output(listed), snapshot_id, parent.snapshot_id, sequence, "deflate"
        ) as manifests:
            manifests.add_manifests([*parent.manifests(PyArrowFileIO()), writer.to_manifest_file()])
        made = Snapshot.model_validate(
            {
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": parent.snapshot_id,
                "sequence-number": sequence,
                "manifest-list": listed,
                "summary": {"operation": "delete"},
                "schema-id": table.schema().schema_id,
            }
        )
        ref = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id})
        answer = table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=made), ref))
        self.tables[name] = Table(
            table.name(), answer.metadata, answer.metadata_location, PyArrowFileIO(), table.catalog
        )
        self.point_at(name, answer.metadata_location)
        self.publish(name, snapshot_id)
        return snapshot_id

    def point_at(self, name: str, location: str) -> None:
        self.conn.execute(
            "update thermocline_iceberg.iceberg_tables set metadata_location = %s where table_name = %s",
            (location, name),
        )

    def publish(self, name: str, snapshot_id: int) -> None:
        self.conn.execute(
            "insert into thermocline.cutline (table_id, t, s, seam_line)"
            " select id, 0, %(s)s, 0 from thermocline.tables where table_name = %(n)s"
            " on conflict (table_id) do update set s = %(s)s",
            {"s": snapshot_id, "n": name},
        )
        self.conn.execute(
            "insert into thermocline.published (table_id, snapshot_id)"
            " select id, %(s)s from thermocline.tables where table_name = %(n)s on conflict do nothing",
            {"s": snapshot_id, "n": name},
        )

    def bind_heap(self, name: str, heap: str) -> None:
        """Name the heap of a lake table, and its columns, as register does."""
        self.conn.execute(
            "update thermocline.tables set heap_oid = %s::regclass where table_name = %s",
            (heap, name),
        )
        for place, column in enumerate(self.tables[name].schema().fields, 1):
            self.conn.execute(
                "insert into thermocline.columns (table_id, position, name, attnum, base_type, pg_type, lake_type,"
                " form, field_id, required)"
                " select t.id, %(place)s, a.attname, a.attnum, y.typname, y.typname, %(lake)s, 'native', %(id)s, false"
                " from thermocline.tables t join pg_attribute a on a.attrelid = t.heap_oid and a.attname = %(column)s"
                " join pg_type y on y.oid = a.atttypid where t.table_name = %(name)s",
                {
                    "place": place,
                    "column": column.name,
                    "lake": str(column.field_type),
                    "id": column.field_id,
                    "name": name,
                },
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
def postgres(clusters: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(clusters / "gateway", free_port(), FAST_TEST_SETTINGS, password=PASSWORD)
    server.init()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    return make_template(postgres)


def make_template(postgres: PostgresServer) -> str:
    """A database with our catalog and a login in it, cloned for each site."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute("create database gateway_template")
    with psycopg.connect(postgres.dsn("gateway_template"), autocommit=True) as conn:
        apply_migrations(conn)
        conn.execute("create extension postgres_fdw")
        conn.execute(
            "insert into thermocline.gateway_logins (name, verifier) values (%s, %s)", (LOGIN, make_verifier(PASSWORD))
        )
    return "gateway_template"


@contextmanager
def fresh_database(postgres: PostgresServer, template: str) -> Iterator[str]:
    """The DSN of a database of its own, dropped at the end."""
    name = f"gw_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    yield postgres.dsn(name)
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@dataclass(frozen=True)
class Site:
    """A database, a gateway on it, and a lake: what one test module or one test works with."""

    dsn: str
    conn: psycopg.Connection[Any]
    gateway: GatewayThread
    lake: Lake

    def direct_dsn(self, *, user: str = LOGIN, password: str = PASSWORD) -> str:
        return make_conninfo(
            host="127.0.0.1", port=self.gateway.port, user=user, password=password, dbname="lake", connect_timeout=5
        )


@contextmanager
def open_site(postgres: PostgresServer, template: str, warehouse: Path) -> Iterator[Site]:
    """A fresh database with a gateway in front of a lake in this directory."""
    with (
        fresh_database(postgres, template) as dsn,
        psycopg.connect(dsn, autocommit=True) as conn,
        start_in_thread(dsn) as gateway,
    ):
        connect_server(conn, gateway.port)
        yield Site(dsn=dsn, conn=conn, gateway=gateway, lake=Lake(warehouse=warehouse, conn=conn))


@pytest.fixture
def site(postgres: PostgresServer, template: str, tmp_path: Path) -> Iterator[Site]:
    with open_site(postgres, template, tmp_path / "ware house%20") as site:
        yield site


@pytest.fixture
def stoppable(clusters: Path, tmp_path: Path) -> Iterator[tuple[Site, PostgresServer]]:
    """A site on a Postgres of its own, which the test may stop: others hold connections to the one of the run."""
    server = PostgresServer(clusters / "stoppable", free_port(), FAST_TEST_SETTINGS, password=PASSWORD)
    server.init()
    server.start()
    with open_site(server, make_template(server), tmp_path / "ware house%20") as site:
        yield site, server
    server.remove()


@pytest.fixture(scope="module")
def shared_site(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(postgres, template, tmp_path_factory.mktemp("lake") / "ware house%20") as site:
        yield site


@pytest.fixture(scope="session")
def lake(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """A spanning table with its twin, for whole queries; tests leave its rows as they were."""
    with fresh_database(postgres, template) as dsn, open_lake(dsn, tmp_path_factory.mktemp("whole")) as made:
        yield made


def connect_server(conn: psycopg.Connection[Any], port: int) -> None:
    """The foreign server and the login of this test's role."""
    conn.execute(
        sql.SQL(
            "create server thermocline_gateway foreign data wrapper postgres_fdw options"
            " (host '127.0.0.1', port {}, dbname 'lake', fetch_size '1000', updatable 'false')"
        ).format(sql.Literal(str(port)))
    )
    conn.execute(
        sql.SQL(
            "create user mapping for current_user server thermocline_gateway options (user {}, password {})"
        ).format(sql.Literal(LOGIN), sql.Literal(PASSWORD))
    )


@pytest.fixture
def client(site: Site) -> Iterator[psycopg.Connection[Any]]:
    """A direct connection to the gateway."""
    with psycopg.connect(site.direct_dsn(), autocommit=True) as client:
        yield client
