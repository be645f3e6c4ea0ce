"""Clone a tiered table that is made once: each clone is a separate database over the same lake files, made in a
fraction of a second.

A clone's catalog points at the metadata the original had, in a folder of its own; its commits write only new files, so
clones do not affect each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql
from tests.twin import Spanning, open_session

from thermocline.gateway.server import start_in_thread
from thermocline.lake.commit.evolve_schema import write_metadata
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.newer_metadata import version_of
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import Connection, with_database
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.runtime.settings import Settings
from thermocline.seam.objects import SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonableTable:
    """The database to clone, and the settings it was made with."""

    postgres: PostgresServer
    database: str
    settings: Settings

    @contextmanager
    def clone(self, *, claimed: bool = True) -> Iterator[Spanning]:
        """A clone of the spanning table and its twin, dropped at the end. Without the claim it can only be read."""
        name = f"clone_{uuid.uuid4().hex[:12]}"
        dsn = with_database(self.postgres.dsn(), name)
        with closing(connect(self.postgres.dsn(), autocommit=True)) as admin:
            admin.execute(
                sql.SQL("create database {} template {} strategy file_copy").format(
                    sql.Identifier(name), sql.Identifier(self.database)
                )
            )
            gateway = start_in_thread(dsn)
            with closing(connect(dsn, autocommit=True)) as conn:
                if claimed:
                    conn.execute("select thermocline.claim_database()")
                    _give_metadata_folder(conn, name)
                    conn.execute("update thermocline.database_identity set lakes_checked = pg_postmaster_start_time()")
                conn.execute(
                    sql.SQL("alter server {} options (set port {})").format(
                        sql.Identifier(SERVER), sql.Literal(str(gateway.port))
                    )
                )
            spanning = Spanning(
                dsn=dsn,
                settings=self.settings.model_copy(update={"dsn": dsn, "gateway_listen": f"127.0.0.1:{gateway.port}"}),
                name=Spanning.table_name(),
                gateway=gateway,
                seam=open_session(dsn, "public_all, public"),
                twin=open_session(dsn, "twin"),
            )
            try:
                yield spanning
            finally:
                spanning.close()
                admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _give_metadata_folder(conn: Connection, name: str) -> None:
    """Give the clone its own metadata folder: metadata files of other clones would look like another writer's."""
    for namespace, table, head in conn.execute(
        "select table_namespace, table_name, metadata_location from thermocline_iceberg.iceberg_tables"
    ).fetchall():
        told = read_metadata_file(head)
        folder = f"{told['location'].rstrip('/')}/metadata_{name}"
        Path(without_file_scheme(folder)).mkdir()
        told["properties"] = {**told.get("properties", {}), "write.metadata.path": folder}
        told["metadata-log"] = [
            *told.get("metadata-log", ()),
            {"metadata-file": head, "timestamp-ms": told["last-updated-ms"]},
        ]
        mine = write_metadata(told, folder, (version_of(head) or 0) + 1)
        conn.execute(
            (
                "update thermocline_iceberg.iceberg_tables set metadata_location = %s where (table_namespace, "
                "table_name) = (%s, %s)"
            ),
            [mine, namespace, table],
        )


@contextmanager
def make_clonable(
    postgres: PostgresServer, template: str, directory: Path, *, cycles: int = 2, before: str = "", **choices: Any
) -> Iterator[ClonableTable]:
    """Make a spanning table, run this many tiering cycles, and prepare it for cloning; `before` runs first."""
    name = f"original_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
        if before:
            with closing(connect(with_database(postgres.dsn(), name), autocommit=True)) as conn:
                conn.execute(before.encode())
        spanning = Spanning.make(with_database(postgres.dsn(), name), directory, **choices)
        for _ in range(cycles):
            spanning.tier()
        spanning.assert_same_rows()
        spanning.close()
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        try:
            yield ClonableTable(postgres=postgres, database=name, settings=spanning.settings)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
