"""The lake in an S3-compatible store: tiered and folded by Spark, read through the seam, and what a store that refuses
leads to."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.object_store import BUCKET, SECRET_KEY, Bucket, serve_bucket
from tests.twin import EVENTS, EVENTS_PARTITIONS, EVENTS_ROWS, assert_same_rows

from thermocline.errors import LakeFileUnreadable
from thermocline.gateway.server import start_in_thread
from thermocline.lake.files.delete_trees import delete_tree, judge_tree
from thermocline.lake.files.listing import list_files, list_parts
from thermocline.lake.read.storage import readable_path
from thermocline.lake.read.table_metadata import forget_cached_tables, read_lake_table
from thermocline.runtime import object_store
from thermocline.runtime.file_io import open_store
from thermocline.runtime.object_store import use_store
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer

WAREHOUSE = f"s3://{BUCKET}/ware house%20"


@dataclass(frozen=True)
class RemoteLake:
    """A database whose lake is in the bucket."""

    dsn: str
    bucket: Bucket

    def seam(self) -> psycopg.Connection[Any]:
        conn = connect(self.dsn, autocommit=True)
        conn.execute("set search_path = public_all, public")
        return conn


@pytest.fixture(scope="module")
def remote(postgres: PostgresServer, template: str) -> Iterator[RemoteLake]:
    name = f"s3_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    dsn = with_database(postgres.dsn(), name)
    with serve_bucket() as bucket, start_in_thread(dsn) as gateway:
        _make_tables(dsn)
        use_store(bucket.store)
        _run_child(dsn, f"127.0.0.1:{gateway.port}", bucket)
        yield RemoteLake(dsn=dsn, bucket=bucket)
        object_store._in_use = None
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _make_tables(dsn: str) -> None:
    with closing(connect(dsn, autocommit=True)) as conn:
        conn.execute("create schema twin")
        conn.execute(f"{EVENTS.format(schema='public')} partition by range (ts)".encode())
        conn.execute(EVENTS_PARTITIONS.encode())
        conn.execute(EVENTS.format(schema="twin").encode())
        for path in ("public", "twin"):
            conn.execute(f"set search_path = {path}".encode())
            conn.execute(EVENTS_ROWS.encode())


def _run_child(dsn: str, gateway: str, bucket: Bucket) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("THERMOCLINE_S3") and not name.startswith("AWS_")
    }
    command = [sys.executable, "-m", "tests.e2e.object_store_child", dsn, gateway, WAREHOUSE]
    done = subprocess.run(
        command, env={**kept, **bucket.store.environment()}, capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert SECRET_KEY not in done.stdout + done.stderr


@pytest.fixture
def fresh(remote: RemoteLake) -> Iterator[psycopg.Connection[Any]]:
    """A seam session over a gateway that has read nothing yet."""
    with start_in_thread(remote.dsn) as gateway, remote.seam() as conn:
        conn.execute(
            sql.SQL("alter server thermocline_gateway options (set port {})").format(sql.Literal(str(gateway.port)))
        )
        yield conn
        remote.bucket.faults.clear()
        use_store(remote.bucket.store)


def test_a_table_tiered_and_folded_on_s3_reads_like_its_twin(
    remote: RemoteLake, fresh: psycopg.Connection[Any]
) -> None:
    tiered = fresh.execute(
        "select count(*) from thermocline.partitions where state in ('tiered', 'dropped')"
    ).fetchone()
    assert tiered is not None
    assert tiered[0] >= 3
    assert_same_rows(fresh)
    assert fresh.execute("select v from events where id = 12 and ts < '2026-02-01'").fetchall() == [(1012,)]
    names = remote.bucket.files()
    assert any(name.endswith("-deletes.parquet") for name in names)
    assert all(name.startswith(f"{BUCKET}/ware house%20/public/events-") for name in names)


def test_keys_the_store_does_not_know_are_an_error_that_names_the_file_and_not_the_keys(
    remote: RemoteLake, fresh: psycopg.Connection[Any]
) -> None:
    use_store(replace(remote.bucket.store, access_key="SOMEBODYELSE", secret_key="hush"))
    with pytest.raises(psycopg.Error, match=r"Lake file s3://lake/.*(403|ACCESS_DENIED)|\.parquet.*403") as refused:
        fresh.execute("select count(*), max(note) from events where ts < '2026-02-01'")
    assert refused.value.sqlstate == "58030"
    assert "hush" not in str(refused.value)
    use_store(remote.bucket.store)
    assert fresh.execute("select count(*) from events where ts < '2026-02-01'").fetchone() is not None


@pytest.mark.parametrize(("fault", "said"), [("missing", "404"), ("truncated", "TC501"), ("forbidden", "403")])
def test_a_file_that_cannot_be_read_whole_is_an_error_and_never_fewer_rows(
    remote: RemoteLake, fresh: psycopg.Connection[Any], fault: Any, said: str
) -> None:
    remote.bucket.faults.append(("/data/", fault, -1))
    with pytest.raises(psycopg.Error, match=said) as refused:
        fresh.execute("select id, note, v from events where ts < '2026-02-01'").fetchall()
    assert refused.value.sqlstate == "58030"
    remote.bucket.faults.clear()
    assert_same_rows(fresh)


def test_metadata_that_is_missing_or_forbidden_is_named(remote: RemoteLake) -> None:
    known = next(name for name in remote.bucket.files() if name.endswith(".metadata.json"))
    with pytest.raises(LakeFileUnreadable, match=f"s3://{BUCKET}/no/such"):
        read_lake_table(f"s3://{BUCKET}/no/such.metadata.json")
    remote.bucket.faults.append((".metadata.json", "forbidden", -1))
    forget_cached_tables()
    with pytest.raises(LakeFileUnreadable, match="ACCESS_DENIED"):
        read_lake_table(f"s3://{known}")
    remote.bucket.faults.clear()
    assert read_lake_table(f"s3://{known}").fields


def test_a_name_that_reads_as_a_pattern_is_refused() -> None:
    with pytest.raises(LakeFileUnreadable, match="pattern"):
        readable_path("s3://lake/data/part[1].parquet")


def test_a_store_that_is_busy_for_a_moment_is_asked_again(remote: RemoteLake, fresh: psycopg.Connection[Any]) -> None:
    remote.bucket.faults.append(("/data/", "busy", 2))
    assert_same_rows(fresh)
    assert remote.bucket.faults[0][2] == 0


def test_no_secret_is_logged_at_any_level(
    remote: RemoteLake, fresh: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert_same_rows(fresh)
    assert SECRET_KEY not in caplog.text
    assert SECRET_KEY not in repr(remote.bucket.store)


def test_files_of_a_lake_on_s3_are_removed_with_it(remote: RemoteLake) -> None:
    location = f"s3://{BUCKET}/another"
    filesystem = open_store(remote.bucket.store)
    for name in ("a/x.parquet", "metadata/v1.json"):
        with filesystem.open_output_stream(f"{BUCKET}/another/{name}") as sink:
            sink.write(b"x")
    delete_tree(judge_tree(location, []))
    assert not [name for name in remote.bucket.files() if "/another/" in name]


def test_a_store_is_listed_whole_and_on_from_any_folder(remote: RemoteLake) -> None:
    store, root = open_store(remote.bucket.store), f"s3://{BUCKET}/listed"
    for key in (
        "metadata/v1.json",
        "data/a/f 1.parquet",
        "data/a/b/f2",
        "data/a-b/f3",
        "data/f4",
        "data/inner/data/theirs",
    ):
        with store.open_output_stream(f"{BUCKET}/listed/{key}") as file:
            file.write(b"x")
    listed = {file.path for file in list_files(root, [f"{root}/data/inner"])}
    assert listed == {
        f"s3://{path}"
        for path in remote.bucket.files()
        if path.startswith(f"{BUCKET}/listed/") and "/inner/" not in path
    }
    order = [part.finished for part in list_parts(root) if part.finished is not None]
    assert order == ["", "data", "data/a", "data/a/b", "data/a-b", "data/inner", "data/inner/data", "metadata"]
    late = [file.path.removeprefix(f"{root}/") for part in list_parts(root, after="data/a") for file in part.files]
    delete_tree(judge_tree(root, []))
    assert late == ["data/a/b/f2", "data/a-b/f3", "data/inner/data/theirs", "metadata/v1.json"]
