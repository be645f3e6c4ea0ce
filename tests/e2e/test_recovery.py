"""A database restored to an earlier moment: the lake is ahead of the journal, nothing is deleted, and `recover` brings
back what agrees."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.adoption import unregister_spanning
from tests.faults.kills import kill_at
from tests.twin import Spanning, open_session
from typer.testing import CliRunner

from thermocline.catalog.journal import table_lock
from thermocline.cli.main import app
from thermocline.errors import LakeNewerThanDatabase, LakesNotCompared, Paused
from thermocline.gateway.server import start_in_thread
from thermocline.maintain.janitor import remove_stray_files
from thermocline.maintain.lake_tables import add_table
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.ops.admin.pause import resume
from thermocline.ops.admin.recover import recover
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port


class Restorable:
    """A cluster of its own that can be put back to an earlier moment: its directory is copied while it is stopped."""

    def __init__(self, directory: Path, work: Path) -> None:
        self.directory = directory
        self.work = work
        self.server = PostgresServer(directory / "data", free_port(), FAST_TEST_SETTINGS, password="test")
        self.server.init()
        self.server.start()
        with closing(connect(self.server.dsn(), autocommit=True)) as conn:
            conn.execute("create database spanning")
        self.spanning = Spanning.make(self.server.dsn("spanning"), work)

    def back_up(self) -> None:
        """Keep the cluster as it is now."""
        self._stop()
        subprocess.run(["cp", "-a", str(self.directory / "data"), str(self.directory / "backup")], check=True)
        self._start()

    def restore(self) -> None:
        """Restore the backup; the lake is not changed."""
        self._stop()
        shutil.rmtree(self.directory / "data")
        (self.directory / "backup").rename(self.directory / "data")
        self._start()

    def _stop(self) -> None:
        self.spanning.close()
        self.server.stop()

    def _start(self) -> None:
        self.server.start()
        was, dsn = self.spanning, self.server.dsn("spanning")
        gateway = start_in_thread(dsn)
        with closing(connect(dsn, autocommit=True)) as conn:
            conn.execute(f"alter server thermocline_gateway options (set port '{gateway.port}')".encode())
        self.spanning = Spanning(
            dsn=dsn,
            settings=was.settings.model_copy(update={"gateway_listen": f"127.0.0.1:{gateway.port}"}),
            name=was.name,
            gateway=gateway,
            seam=open_session(dsn, "public_all, public"),
            twin=open_session(dsn, "twin"),
        )

    def remove(self) -> None:
        self.spanning.close()
        self.server.remove()


@pytest.fixture
def restorable(clusters: Path, tmp_path: Path) -> Iterator[Restorable]:
    place = clusters / "restorable"
    place.mkdir()
    place.chmod(0o777)
    made = Restorable(place, tmp_path)
    yield made
    made.remove()
    shutil.rmtree(place, ignore_errors=True)


def _lake(spanning: Spanning) -> Path:
    ((location,),) = spanning.query("select lake_location from thermocline.tables")
    return Path(without_file_scheme(location))


def _files(spanning: Spanning) -> set[Path]:
    return {path for path in _lake(spanning).rglob("*") if path.is_file()}


def _maintain(spanning: Spanning) -> None:
    run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest())


def _move_on(spanning: Spanning) -> None:
    """Commits that the database will lose: a fold, and a partition tiered."""
    spanning.both("update events set v = v + 1 where id in (3, 4) returning *")
    spanning.fold()
    spanning.both("update events set note = 'lost' where id in (5, 6) returning *")
    spanning.fold()


def test_a_restart_alone_is_compared_once_and_goes_on(restorable: Restorable) -> None:
    restorable.spanning.tier()
    restorable.back_up()
    spanning = restorable.spanning
    with (
        closing(connect(spanning.dsn, autocommit=True)) as conn,
        pytest.raises(LakesNotCompared),
        table_lock(conn, 1, "public.events"),
    ):
        pass
    spanning.both("update events set v = v + 1 where id = 7 returning *")
    assert spanning.fold().op_id is not None
    spanning.assert_same_rows()


@pytest.mark.conforms("C-225")
def test_a_database_restored_to_an_earlier_moment_deletes_nothing_and_recovers(restorable: Restorable) -> None:
    restorable.spanning.tier()
    restorable.spanning.both("update events set v = v + 1 where id in (1, 2) returning *")
    restorable.spanning.fold()
    restorable.spanning.both("delete from events where id = 9 returning *")
    restorable.back_up()
    _move_on(restorable.spanning)
    restorable.restore()
    spanning = restorable.spanning
    spanning.assert_same_rows()
    files = _files(spanning)
    for refused in (spanning.tier, spanning.fold, lambda: _maintain(spanning)):
        with pytest.raises(LakeNewerThanDatabase, match="restored to an earlier moment"):
            refused()
    with closing(connect(spanning.dsn, autocommit=True)) as conn, pytest.raises(LakeNewerThanDatabase):
        remove_stray_files(conn, 0)
    assert _files(spanning) == files
    (dry,) = recover(spanning.dsn, dry_run=True).tables
    assert (dry.state, _files(spanning)) == ("recovered", files)
    done = CliRunner().invoke(app, ["recover", "--dsn", spanning.dsn, "--json"])
    assert (done.exit_code, [table["state"] for table in json.loads(done.stdout)["tables"]]) == (0, ["recovered"])
    assert files < _files(spanning)
    assert [table.state for table in recover(spanning.dsn).tables] == ["agrees"]
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 7 where id in (3, 5, 9, 300) returning *")
    spanning.fold()
    spanning.assert_same_rows()
    _maintain(spanning)
    spanning.assert_same_rows()


def test_a_pruned_metadata_file_is_made_again_from_a_later_one(restorable: Restorable) -> None:
    restorable.spanning.tier()
    restorable.back_up()
    ((head,),) = restorable.spanning.query("select metadata_location from thermocline_iceberg.iceberg_tables")
    _move_on(restorable.spanning)
    Path(without_file_scheme(head)).unlink()
    restorable.restore()
    spanning = restorable.spanning
    with pytest.raises(LakeNewerThanDatabase):
        spanning.fold()
    assert [table.state for table in recover(spanning.dsn).tables] == ["recovered"]
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 7 where id in (3, 5) returning *")
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-225")
def test_what_was_expired_since_is_named_and_the_table_stands_still(restorable: Restorable) -> None:
    restorable.spanning.tier()
    restorable.back_up()
    gone = sorted(path for path in _files(restorable.spanning) if path.suffix == ".parquet")[:2]
    _move_on(restorable.spanning)
    restorable.restore()
    spanning = restorable.spanning
    kept = [(path, path.read_bytes()) for path in gone]
    for path in gone:
        path.unlink()
    report = recover(spanning.dsn)
    (table,) = report.tables
    assert not report.is_complete
    assert {Path(without_file_scheme(file.path)) for file in table.missing} == set(gone)
    assert sum(file.rows for file in table.missing) > 0
    assert "Bring them back" in table.sentence
    with pytest.raises(Paused):
        spanning.fold()
    for path, content in kept:
        path.write_bytes(content)
    assert recover(spanning.dsn).is_complete
    resume(spanning.dsn, spanning.name)
    spanning.both("update events set v = v + 7 where id in (3, 5) returning *")
    spanning.fold()
    spanning.assert_same_rows()


def test_a_kill_before_the_pointer_moves_is_recovered_again(
    restorable: Restorable, monkeypatch: pytest.MonkeyPatch
) -> None:
    restorable.spanning.tier()
    restorable.back_up()
    _move_on(restorable.spanning)
    restorable.restore()
    spanning = restorable.spanning
    monkeypatch.setenv("THERMOCLINE_TEST_KILL_AT", "recover-written")
    child = subprocess.run(
        [sys.executable, "-m", "thermocline", "recover", "--dsn", spanning.dsn], check=False, capture_output=True
    )
    assert child.returncode == -9
    monkeypatch.delenv("THERMOCLINE_TEST_KILL_AT")
    with pytest.raises(LakeNewerThanDatabase):
        spanning.tier()
    assert [table.state for table in recover(spanning.dsn).tables] == ["recovered"]
    spanning.both("update events set v = v + 7 where id in (3, 5) returning *")
    spanning.fold()
    spanning.assert_same_rows()


def _head(spanning: Spanning) -> Path:
    ((head,),) = spanning.query("select metadata_location from thermocline_iceberg.iceberg_tables")
    return Path(without_file_scheme(head))


def _tear(head: Path, how: str) -> None:
    """Damage a file as a power failure does when it was not flushed."""
    held = head.read_bytes()
    head.write_bytes(
        {
            "empty": b"",
            "half": held[: len(held) // 2],
            "zeros": bytes(len(held)),
            "half a gzip": gzip.compress(held)[:-9],
        }[how]
    )


@pytest.mark.parametrize("how", ["empty", "half", "zeros", "half a gzip"])
def test_a_torn_head_is_replaced_by_its_predecessor_and_nothing_is_lost(spanning: Spanning, how: str) -> None:
    """A fold whose metadata file was not on the disk yet when the power went: it was never published."""
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (3, 4) returning *")
    assert kill_at(spanning, "fold-committed", "fold_child") == -9
    _tear(_head(spanning), how)
    files = _files(spanning)
    (dry,) = recover(spanning.dsn, dry_run=True).tables
    assert (dry.state, _files(spanning)) == ("recovered", files)
    (done,) = recover(spanning.dsn).tables
    assert done.state == "recovered"
    assert "the head's own cannot be read" in done.sentence
    assert files < _files(spanning)
    spanning.assert_same_rows()
    assert spanning.fold().rows == 2
    spanning.assert_same_rows()
    spanning.tier()
    _maintain(spanning)
    spanning.assert_same_rows()
    assert [table.state for table in recover(spanning.dsn).tables] == ["agrees"]


def test_a_torn_head_that_only_evolved_the_schema_is_evolved_again(spanning: Spanning) -> None:
    spanning.tier()
    spanning.alter("add column extra integer default 4")
    spanning.tier()
    _tear(_head(spanning), "half")
    assert [table.state for table in recover(spanning.dsn).tables] == ["recovered"]
    spanning.tier()
    spanning.both("update events set extra = 5 where id in (3, 300) returning *")
    spanning.fold()
    spanning.assert_same_rows()


def test_a_torn_head_whose_snapshot_was_published_is_named_and_nothing_goes_back(spanning: Spanning) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (3, 4) returning *")
    spanning.fold()
    _tear(_head(spanning), "half")
    (table,) = recover(spanning.dsn).tables
    assert table.state == "incomplete"
    assert "a metadata file that knows snapshot" in table.missing[0].path


def test_a_plain_lake_table_goes_back_to_what_its_predecessor_says_and_is_never_emptied(spanning: Spanning) -> None:
    spanning.tier()
    unregister_spanning(spanning)
    add_table(spanning.dsn, spanning.name)
    before = spanning.spark().sql("select count(*), sum(v) from thermocline.public.events").collect()
    spanning.spark().sql("alter table thermocline.public.events set tblproperties ('some' = 'thing')")
    _tear(_head(spanning), "half")
    assert [table.state for table in recover(spanning.dsn).tables] == ["recovered"]
    assert spanning.spark().sql("select count(*), sum(v) from thermocline.public.events").collect() == before
    # Neither the head nor its predecessor is readable: the table's content is unknown.
    spanning.seam.execute("update thermocline_iceberg.iceberg_tables set previous_metadata_location = null")
    head = _head(spanning)
    held = head.read_bytes()
    _tear(head, "zeros")
    assert [table.state for table in recover(spanning.dsn).tables] == ["incomplete"]
    head.write_bytes(held)
    # A snapshot with a missing file is reported, and does not become an empty table.
    gone = next(head.parent.parent.rglob("*.parquet"))
    gone.rename(gone.with_suffix(".away"))
    (table,) = recover(spanning.dsn).tables
    assert (table.state, len(table.missing)) == ("incomplete", 1)
