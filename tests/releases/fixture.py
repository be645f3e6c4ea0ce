"""Release fixtures: a database and its warehouse as a release of this program left them, one folder per version.

`dump.sql.gz` is a plain dump, restored by any psql into Postgres of the same major or a later one. Its rows are COPY
data: `pg_dump --inserts` writes the float -0 as the integer 0. `warehouse.tar.gz` holds the files of the lake.

Iceberg's metadata, manifests and position deletes name their files by absolute paths, most of them inside compressed
Avro and Parquet. With other paths they would be files that no release ever wrote. So each warehouse is made in a
directory of its version, `/tmp/thermocline-release-<version>`, and unpacked to the same directory. Two runs on one
machine, also of two work trees, must not meet there: `hold_place` locks the directory itself and removes it at the end.
The kernel releases the lock of a process that is killed; the next holder removes the files that it left.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from thermocline.cli.main import run

RELEASES = Path(__file__).parent
DUMP, WAREHOUSE = "dump.sql.gz", "warehouse.tar.gz"


def read_versions() -> tuple[str, ...]:
    """The releases that have a fixture."""
    return tuple(sorted(dump.parent.name for dump in RELEASES.glob(f"*/{DUMP}")))


@contextmanager
def hold_place(version: str) -> Iterator[Path]:
    """The directory that the paths in this release's warehouse lead to: empty, and held by nobody else."""
    place = Path("/tmp") / f"thermocline-release-{version}"
    handle = _lock_directory(place)
    try:
        _empty(place)
        yield place
    finally:
        shutil.rmtree(place)
        os.close(handle)


def _lock_directory(place: Path) -> int:
    """A locked descriptor of the directory; made again where its holder removed it while this process waited."""
    while True:
        place.mkdir(exist_ok=True)
        try:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if place.exists() and os.path.samestat(os.fstat(handle), place.stat()):
            return handle
        os.close(handle)


def _empty(place: Path) -> None:
    for left in place.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def write_fixture(version: str, dump: str, warehouse: Path) -> Path:
    """Keep a dump and a warehouse as the fixture of a release."""
    folder = RELEASES / version
    folder.mkdir(exist_ok=True)
    (folder / DUMP).write_bytes(gzip.compress(dump.encode(), mtime=0))
    with tarfile.open(folder / WAREHOUSE, "w:gz") as archive:
        archive.add(warehouse, arcname=warehouse.name)
    return folder


def restore_dump(version: str, dsn: str) -> None:
    """The dump of a release into an empty database."""
    dump = gzip.decompress((RELEASES / version / DUMP).read_bytes())
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, dsn]
    done = subprocess.run(command, input=dump, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def unpack_warehouse(version: str, place: Path) -> Path:
    """The files of a release's lake, with the times they were written at; the warehouse's directory."""
    with tarfile.open(RELEASES / version / WAREHOUSE) as archive:
        archive.extractall(place, filter="data")
    return place / "warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The command line of this tree on one database, with the settings file in `directory`.

    Commands run in this process: they share one Spark.
    """

    directory: Path
    dsn: str = field(repr=False)

    @classmethod
    def make(cls, directory: Path, dsn: str, *, warehouse: Path, gateway_port: int) -> Program:
        settings = {
            "warehouse": str(warehouse),
            "gateway_listen": f"127.0.0.1:{gateway_port}",
            "spark_master": "local[2,2]",
            "spark_driver_memory": "2g",
        }
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
        (directory / "thermocline.toml").write_text("".join(lines))
        return cls(directory=directory, dsn=dsn)

    def run(self, *arguments: str) -> Any:
        """What a command prints as JSON; it must succeed."""
        printed = io.StringIO()
        with redirect_stdout(printed), pytest.raises(SystemExit) as left:
            run([*arguments, "--dir", str(self.directory), "--dsn", self.dsn, "--json", "--debug"])
        assert left.value.code == 0, f"thermocline {' '.join(arguments)}: exit {left.value.code}\n{printed.getvalue()}"
        return json.loads(printed.getvalue())


def assert_same_table(conn: psycopg.Connection[Any], ours: str, twin: str) -> None:
    """Both have the same rows, as often, down to the text of every value."""
    texts = [f"select e::text from {table} e" for table in (ours, twin)]
    for one, other, word in ((*texts, "surplus"), (*reversed(texts), "missing")):
        rows = conn.execute(f"{one} except all {other} order by 1".encode()).fetchall()
        assert not rows, f"{ours} against {twin}: {len(rows)} {word} rows, first {str(rows[0])[:600]}"
