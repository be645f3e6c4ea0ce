"""An Iceberg table that is not registered in Postgres, with helpers to age, add and count its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.spark.lake_database import LakeDatabase

from thermocline.catalog.safety import Owner
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.settings import Settings


@dataclass(slots=True, kw_only=True)
class SweptTable:
    """The table `lab.<name>` and a connection to its catalog."""

    lake_database: LakeDatabase
    name: TableName
    lake_id: int
    conn: Any = field(repr=False)

    @property
    def sql_name(self) -> str:
        return f"thermocline.{self.name.schema}.{self.name.table}"

    @property
    def owner(self) -> Owner:
        return Owner(lake_id=self.lake_id)

    @property
    def head(self) -> LakeHead:
        return load_table(self.lake_database.spark, self.name)

    @property
    def folder(self) -> Path:
        return Path(without_file_scheme(self.head.location))

    def context(self, *, later: timedelta = timedelta(), **changes: Any) -> PassContext:
        """A pass over the table, `later` than now; keywords that are no part of a context are policy."""
        own = {key: changes.pop(key) for key in ("dry_run", "pass_id", "settings", "spark") if key in changes}
        made = PassContext(
            conn=self.conn,
            dsn=self.lake_database.dsn,
            spark=lambda: self.lake_database.spark,
            settings=Settings(dsn=self.lake_database.dsn),
            target=LakeTarget(name=self.name, lake_id=self.lake_id),
            policy=Policy(**changes),
            now=datetime.now(UTC) + later,
            worker="test",
        )
        return replace(made, **own)

    def sql(self, statement: str) -> Any:
        """A statement of Spark's; `{t}` stands for the table."""
        return self.lake_database.spark.sql(statement.replace("{t}", self.sql_name))

    def append(self, *keys: int) -> int:
        """One snapshot with these rows."""
        self.sql("insert into {t} values " + ", ".join(f"({key}, 'row {key}')" for key in keys))
        snapshot = self.head.snapshot_id
        assert snapshot is not None
        return snapshot

    def rows(self, at: int | str | None = None) -> list[Any]:
        """The rows of the table, of a snapshot, or of a branch or tag, in order."""
        table = "{t}" if at is None else f"{{t}} version as of {at!r}"
        return sorted(tuple(row) for row in self.sql(f"select * from {table}").collect())

    def files(self) -> set[str]:
        """Every file in the table's folder, checksums of Hadoop's left out."""
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_file() and path.suffix != ".crc"
        }

    def age(self, path: Path, hours: float) -> Path:
        """Make a file older by so many hours, by the store's clock; files that are aged alike stay in the order they
        were written in."""
        moment = path.stat().st_mtime - hours * 3600
        os.utime(path, (moment, moment))
        return path

    def leave(self, place: str, hours: float) -> Path:
        """A file of this age that nothing names."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left behind")
        return self.age(path, hours)


@contextmanager
def make_lake(
    lake_database: LakeDatabase, columns: str = "id bigint, body string", *, table: str = "events"
) -> Iterator[SweptTable]:
    """`lab.<table>`, empty, added to what is maintained."""
    lake_database.spark.sql("create namespace if not exists thermocline.lab")
    lake_database.spark.sql(f"create table thermocline.lab.{table} ({columns}) using iceberg")
    conn = lake_database.connect()
    try:
        row = conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values ('lab', %s) returning id", [table]
        ).fetchone()
        assert row is not None
        yield SweptTable(lake_database=lake_database, name=TableName("lab", table), lake_id=row[0], conn=conn)
    finally:
        conn.close()
