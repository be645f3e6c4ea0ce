"""The DuckDB databases of an executor: one for every statement, and one for those that hold rows."""

from __future__ import annotations

import shutil
import threading
from itertools import count
from pathlib import Path

import duckdb

from thermocline.errors import LakeFileUnreadable
from thermocline.gateway.executor.execution.duckdb_batches import translate_duckdb_error
from thermocline.gateway.executor.execution.duckdb_object_store import configure_object_store
from thermocline.gateway.executor.jobs import ExecutorConfig, LakeAccess
from thermocline.runtime.object_store import ObjectStore, use_store

_FIELD_IDS = "SELECT file_name FROM parquet_schema(?) WHERE num_children IS NULL AND field_id IS NULL LIMIT 1"


class DuckDbDatabases:
    """Opens cursors. Each database has a spill directory of its own: DuckDB's file names repeat."""

    def __init__(self, config: ExecutorConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._numbers = count()
        self._store: ObjectStore | None = None
        self._memory_bytes = config.memory.stream_bytes
        self._root, _ = self._open(self._memory_bytes)
        # DuckDB looks for pandas at its first parameter, which takes seconds: now, not in somebody's first statement.
        self._root.execute("SELECT ?, ?", [1, ["x"]]).to_arrow_reader(1).read_all()
        self._held: tuple[duckdb.DuckDBPyConnection, Path] | None = None
        self._held_users = 0

    def _open(self, memory_bytes: int) -> tuple[duckdb.DuckDBPyConnection, Path]:
        limits, spill = self.config.memory, Path(self.config.spill_path) / str(next(self._numbers))
        database = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "threads": str(self.config.threads),
                "memory_limit": _megabytes(memory_bytes),
                "preserve_insertion_order": "false",
                "temp_directory": str(spill) if limits.spill_bytes else "",
                "max_temp_directory_size": _megabytes(limits.spill_bytes),
            },
        )
        database.execute("SET GLOBAL TimeZone = 'UTC'")
        database.execute("SET GLOBAL parquet_metadata_cache = true")
        # It computes sum(n + 1) as sum(n) + count(n), past an overflow that Postgres reports.
        database.execute("SET GLOBAL disabled_optimizers = 'sum_rewriter'")
        if self._store is not None:
            configure_object_store(database, self._store)
        return database, spill

    def cursor(self, memory_bytes: int | None = None) -> duckdb.DuckDBPyConnection:
        """A cursor of the database that streams run in, under this limit."""
        wanted = memory_bytes or self.config.memory.stream_bytes
        with self._lock:
            if wanted != self._memory_bytes:
                self._root.execute("SET GLOBAL memory_limit = ?", [_megabytes(wanted)])
                self._memory_bytes = wanted
            return self._root.cursor()

    def take_held(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the database under the connection's limit, opened for the first; each is given back once."""
        with self._lock:
            if self._held is None:
                self._held = self._open(self.config.memory.connection_bytes)
            self._held_users += 1
            return self._held[0].cursor()

    def give_back_held(self, cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.close()
        with self._lock:
            self._held_users -= 1
            if self._held_users or self._held is None:
                return
            (database, spill), self._held = self._held, None
            database.close()
        shutil.rmtree(spill, ignore_errors=True)

    def prepare(self, lake: LakeAccess) -> None:
        """Reach the object store, again when its keys changed. A file without field ids would read as nulls under
        Iceberg's rules, so it is refused by name."""
        with self._lock:
            if lake.store is not None and lake.store != self._store:
                use_store(lake.store)
                for database in (self._root, *((self._held[0],) if self._held else ())):
                    configure_object_store(database, lake.store)
                self._store = lake.store
            cursor = self._root.cursor()
        try:
            if not lake.unchecked_paths:
                return
            bad = cursor.execute(_FIELD_IDS, [list(lake.unchecked_paths)]).fetchone()
        except duckdb.Error as problem:
            raise translate_duckdb_error(problem) from problem
        finally:
            cursor.close()
        if bad:
            raise LakeFileUnreadable(f"Lake file {bad[0]} carries no Iceberg field ids.")


def _megabytes(count_bytes: int) -> str:
    return f"{count_bytes // 1_000_000}MB"
