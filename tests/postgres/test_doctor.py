"""What doctor says: each of its checks is seen good and seen failing, with what to do."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, LiteralString

import pytest
from psycopg import pq
from psycopg.conninfo import make_conninfo
from tests.object_store import BUCKET, Bucket, serve_bucket
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.core.health import health_conditions
from thermocline.core.health.finding import Finding
from thermocline.gateway.server import start_in_thread
from thermocline.ops.admin.init_database import GatewayLogin, init_database
from thermocline.ops.admin.places import wanted_places
from thermocline.ops.admin.profiles import add_profile
from thermocline.ops.doctor.checks import examine, judge_clock
from thermocline.runtime import object_store
from thermocline.runtime.object_store import use_store
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port
from thermocline.runtime.settings import Settings

SERVER = "foreign server thermocline_gateway"


@pytest.fixture
def ready(shop: Shop) -> Shop:
    """A database as `init` leaves it, with the settings that belong to it."""
    init_database(shop.dsn, wanted_places(shop.settings))
    shop.warehouse.mkdir()
    shop.settings = shop.settings.model_copy(update={"dsn": shop.dsn})
    return shop


def found(check: str, settings: Settings, **changes: Any) -> Finding:
    """The finding of one check; whatever is not good comes with a remedy."""
    findings = [finding for finding in examine(settings.model_copy(update=changes)) if finding.check == check]
    assert len(findings) == 1, check
    assert (findings[0].verdict == "ok") == (findings[0].fix is None)
    return findings[0]


def test_a_database_that_is_ready_has_nothing_red(ready: Shop) -> None:
    ready.run("set constraint_exclusion = on")
    assert [finding for finding in examine(ready.settings) if finding.verdict == "red"] == []


def test_java_that_is_missing_is_red(ready: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert found("java", ready.settings).verdict == "ok"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    missing = found("java and jars", ready.settings)
    assert missing.verdict == "red"
    assert "point JAVA_HOME at it" in str(missing.fix)


def test_jars_that_cannot_be_had_are_red(ready: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert found("jars", ready.settings).verdict == "ok"
    (tmp_path / "a file").touch()
    monkeypatch.setenv("THERMOCLINE_CACHE", str(tmp_path / "a file"))
    assert found("java and jars", ready.settings).verdict == "red"


def test_a_warehouse_that_is_missing_full_or_not_writable_is_told(
    ready: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert found("warehouse", ready.settings).verdict == "ok"
    missing = found("warehouse", ready.settings, warehouse=str(tmp_path / "nowhere"))
    assert (missing.verdict, missing.fix) == ("warning", "`thermocline up` makes it.")
    unusable = found("warehouse", ready.settings, warehouse="/proc/self")
    assert (unusable.verdict, "cannot be written" in unusable.seen) == ("red", True)
    assert "writable" in str(unusable.fix)
    monkeypatch.setattr(health_conditions, "ROOMY_BYTES", shutil.disk_usage(ready.warehouse).total * 2)
    full = found("warehouse", ready.settings)
    assert (full.verdict, "Free some space" in str(full.fix)) == ("warning", True)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with serve_bucket() as served:
        yield served


@pytest.fixture
def store(bucket: Bucket) -> Iterator[Bucket]:
    use_store(bucket.store)
    yield bucket
    bucket.refused.clear()
    object_store._in_use = None


@pytest.mark.conforms("O-025")
@pytest.mark.parametrize(
    ("method", "right"),
    [
        ("PUT", "s3:PutObject"),
        ("GET /lake?", "s3:ListBucket"),
        ("GET /lake/", "s3:GetObject"),
        ("DELETE", "s3:DeleteObject"),
    ],
)
def test_a_right_that_is_missing_in_the_object_store_is_named(
    ready: Shop, store: Bucket, method: str, right: str
) -> None:
    location, before = f"s3://{BUCKET}/ware house", store.files()
    good = found("warehouse", ready.settings, warehouse=location)
    assert (good.verdict, good.seen) == ("ok", f"{location}: a file was written, listed, read and deleted")
    assert store.files() == before
    store.refused.append(method)
    refused = found("warehouse", ready.settings, warehouse=location)
    assert refused.verdict == "red"
    assert f"Allow {right} below {location}" in str(refused.fix)
    assert ("was left there" in refused.seen) == (method == "DELETE")


def test_a_store_that_cannot_be_reached_or_has_no_such_bucket_is_red(ready: Shop, store: Bucket) -> None:
    assert found("warehouse", ready.settings, warehouse="s3://nobodys-bucket/lake").verdict == "red"


def test_the_warehouse_of_every_profile_is_looked_at(ready: Shop, tmp_path: Path) -> None:
    (tmp_path / "cold").mkdir()
    add_profile(ready.dsn, "cold", str(tmp_path / "cold"))
    assert found("warehouse of profile cold", ready.settings).verdict == "ok"
    (tmp_path / "cold").rmdir()
    assert found("warehouse of profile cold", ready.settings).verdict == "warning"


def test_postgres_that_is_not_named_or_not_there_is_red(ready: Shop) -> None:
    assert found("postgres", ready.settings).verdict == "ok"
    unnamed = found("postgres", ready.settings, dsn=None)
    assert (unnamed.verdict, "thermocline up" in str(unnamed.fix)) == ("red", True)
    away = found("postgres", ready.settings, dsn=f"host=127.0.0.1 port={free_port()} dbname=x user=y")
    assert (away.verdict, "cannot be reached" in away.seen) == ("red", True)


def test_settings_of_the_database_are_told(ready: Shop) -> None:
    name = ready.conn.info.dbname
    for value, verdict in (("on", "ok"), ("partition", "warning")):
        ready.run(f'alter database "{name}" set constraint_exclusion = {value}')
        finding = found("constraint_exclusion", ready.settings)
        assert finding.verdict == verdict
    assert "SET constraint_exclusion = on" in str(finding.fix)


def test_rights_of_the_role_are_told(ready: Shop, make_role: Any) -> None:
    role = make_role()
    mine = {"dsn": ready.as_role(role)}
    for check, verdict, fix in (
        ("privileges", "red", f"GRANT CREATE ON DATABASE {ready.conn.info.dbname} TO {role};"),
        ("pg_read_all_stats", "warning", f"GRANT pg_read_all_stats TO {role}"),
        (SERVER, "red", "thermocline init"),
    ):
        assert found(check, ready.settings).verdict == "ok"
        finding = found(check, ready.settings, **mine)
        assert (finding.verdict, fix in str(finding.fix)) == (verdict, True), finding
    stranger = found("catalog", ready.settings, **mine)
    assert (stranger.verdict, "the role that ran `thermocline init`" in str(stranger.fix)) == ("red", True)


def test_postgres_fdw_that_is_missing_is_told(bare_database: str, postgres: PostgresServer) -> None:
    settings = Settings(dsn=bare_database)
    assert found("postgres_fdw", settings).verdict == "warning"
    without = make_conninfo(bare_database, options="-c extension_control_path=/nonexistent")
    nowhere = found("postgres_fdw", settings, dsn=without)
    assert (nowhere.verdict, nowhere.fix) == ("red", "Install the contrib package of this Postgres.")


def test_a_plain_role_is_told_the_statements_that_let_it_use_postgres_fdw(
    ready: Shop, bare_database: str, make_role: Any
) -> None:
    role = make_role()
    grant = f"GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {role};"
    missing = found("postgres_fdw", Settings(dsn=make_conninfo(bare_database, user=role, password="secret")))
    assert (missing.verdict, missing.fix) == ("red", f"As a superuser: CREATE EXTENSION postgres_fdw; {grant}")
    mine = {"dsn": ready.as_role(role)}
    finding = found("postgres_fdw", ready.settings, **mine)
    assert (finding.verdict, finding.fix) == ("red", f"As a superuser: {grant}")
    ready.run(grant)
    assert found("postgres_fdw", ready.settings, **mine).verdict == "ok"
    ready.run(f"revoke all on foreign data wrapper postgres_fdw from {role}")


def test_clocks_that_differ_are_told(ready: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("clock", ready.settings).verdict == "ok"
    for seconds, verdict in ((-5.0, "warning"), (3600.0, "red")):
        monkeypatch.setattr(time, "time", lambda now=time.time, by=seconds: now() + by)
        finding = found("clock", ready.settings)
        assert (finding.verdict, "Synchronise the clocks" in str(finding.fix)) == (verdict, True)
        monkeypatch.undo()
    assert judge_clock(12.0, 11.5).verdict == "ok", "the way there took long, which is no difference of clocks"


def test_a_catalog_of_another_version_is_red(ready: Shop) -> None:
    assert found("catalog", ready.settings).verdict == "ok"
    ready.run("insert into thermocline.schema_version (version, name) values (9999, 'later')")
    newer = found("catalog", ready.settings)
    assert (newer.verdict, newer.fix) == ("red", "Upgrade thermocline.")
    ready.run(
        "delete from thermocline.schema_version where version = (select max(version) from "
        "thermocline.schema_version where version < 9999)"
    )
    ready.run("delete from thermocline.schema_version where version = 9999")
    older = found("catalog", ready.settings)
    assert (older.verdict, older.fix) == ("red", "Run `thermocline init`.")


def test_the_event_triggers_that_follow_columns_are_looked_for(ready: Shop) -> None:
    assert found("event triggers", ready.settings).seen == "columns are followed at once"
    ready.run("alter event trigger thermocline_alter_end disable")
    finding = found("event triggers", ready.settings)
    assert (finding.verdict, finding.seen) == ("warning", "columns are followed by the next cycle")


def test_operations_that_nobody_finished_are_told(ready: Shop) -> None:
    assert found("unfinished operations", ready.settings).verdict == "ok"
    ready.run(*EVENTS)
    ready.register()
    ready.run(
        "insert into thermocline.op_log (op_id, table_id, kind, phase, fence, worker, changed_at)"
        " select gen_random_uuid(), id, 'tier', 'written', 0, 'w', now() - interval '1 hour' from thermocline.tables"
    )
    finding = found("unfinished operations", ready.settings)
    assert (finding.verdict, finding.seen.startswith("1, the oldest")) == ("warning", True)


@pytest.fixture(scope="module")
def cluster(clusters: Path) -> Iterator[PostgresServer]:
    """A cluster of its own: slots are the whole cluster's."""
    settings = {**FAST_TEST_SETTINGS, "wal_level": "replica", "max_wal_senders": "2", "max_replication_slots": "2"}
    server = PostgresServer(clusters / "slots", free_port(), settings, password="test")
    server.init()
    server.start()
    yield server
    server.remove()


def test_a_server_of_which_no_backup_can_be_made_is_told(cluster: PostgresServer, clusters: Path) -> None:
    assert found("wal_level", Settings(dsn=cluster.dsn())).verdict == "ok"
    settings = {**FAST_TEST_SETTINGS, "wal_level": "minimal", "max_wal_senders": "0"}
    server = PostgresServer(clusters / "minimal", free_port(), settings, password="test")
    server.init()
    server.start()
    minimal = found("wal_level", Settings(dsn=server.dsn()))
    server.remove()
    assert (minimal.verdict, "wal_level = replica" in str(minimal.fix)) == ("warning", True)


def test_a_replication_slot_without_a_reader_is_told(cluster: PostgresServer) -> None:
    settings = Settings(dsn=cluster.dsn())
    free = found("replication slots", settings)
    assert (free.verdict, free.seen) == ("ok", "0 of 2 in use, each with its reader")
    with closing(connect(cluster.dsn(), autocommit=True)) as conn:
        conn.execute("select pg_create_physical_replication_slot('left_behind', true)")
        idle = found("replication slots", settings)
        assert (idle.verdict, "left_behind is read by nobody and keeps WAL on disk" in idle.seen) == ("warning", True)
        assert "SELECT pg_drop_replication_slot('left_behind');" in str(idle.fix)
        # A slot holds a snapshot after a standby has reported one through it and gone away.
        _report_a_snapshot(cluster, "left_behind")
        holding = found("replication slots", settings)
        assert (holding.verdict, "holds back the dropping of partitions" in holding.seen) == ("red", True)
        conn.execute("select pg_drop_replication_slot('left_behind')")
        for name in ("one", "two"):
            conn.execute("select pg_create_physical_replication_slot(%s)", [name])
        full = found("replication slots", settings)
        assert (full.verdict, "Raise max_replication_slots" in str(full.fix)) == ("warning", True)
        conn.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def _report_a_snapshot(cluster: PostgresServer, slot: str) -> None:
    """Stream from the slot as a standby does, report an oldest transaction, and hang up."""
    wire = pq.PGconn.connect(make_conninfo(cluster.dsn(), replication="true").encode())
    assert wire.status == pq.ConnStatus.OK, wire.error_message
    with closing(connect(cluster.dsn(), autocommit=True)) as conn:
        ((lsn,),) = conn.execute("select pg_current_wal_lsn()::text").fetchall()
        streaming = wire.exec_(f"START_REPLICATION SLOT {slot} PHYSICAL {lsn}".encode())
        assert streaming.status == pq.ExecStatus.COPY_BOTH, wire.error_message
        ((xid,),) = conn.execute("select pg_current_xact_id()::text::bigint").fetchall()
        wire.put_copy_data(b"h" + struct.pack("!qIIII", 0, xid % 2**32, xid >> 32, 0, 0))
        wire.flush()
        _wait_until(conn, "select xmin is not null from pg_replication_slots where slot_name = %s", slot)
        wire.finish()
        _wait_until(conn, "select not active from pg_replication_slots where slot_name = %s", slot)


def _wait_until(conn: Connection, question: LiteralString, value: str) -> None:
    for _ in range(400):
        if conn.execute(question, [value]).fetchone() == (True,):
            return
        time.sleep(0.05)
    raise AssertionError(question)


def test_the_gateway_that_is_away_or_no_gateway_is_red(ready: Shop) -> None:
    assert found("gateway", ready.settings).verdict == "ok"
    away = found("gateway", ready.settings, gateway_listen=f"127.0.0.1:{free_port()}")
    assert (away.verdict, "thermocline gateway" in str(away.fix)) == ("red", True)
    with _answering(b"HTTP/1.1 400\r\n") as port:
        other = found("gateway", ready.settings, gateway_listen=f"127.0.0.1:{port}")
    assert (other.verdict, "Another program has that port" in str(other.fix)) == ("red", True)


def test_the_way_of_postgres_to_the_gateway_is_tried(ready: Shop) -> None:
    good = found(SERVER, ready.settings)
    assert good.verdict == "ok", good
    host, port = ready.settings.gateway_hosts_and_ports
    moved = found(SERVER, ready.settings, gateway_listen="127.0.0.1:1")
    assert (moved.verdict, f"leads to {host} port {port}" in moved.seen) == ("red", True)
    nobody = str(free_port())
    ready.run(f"alter server thermocline_gateway options (set port '{nobody}')")
    away = found(SERVER, ready.settings, gateway_listen=f"{host}:{nobody}")
    assert (
        away.verdict,
        f"Start the gateway where Postgres can reach it at {host} port {nobody}" in str(away.fix),
    ) == ("red", True)
    ready.run(f"alter server thermocline_gateway options (set port '{port}')")
    ready.run("alter user mapping for current_user server thermocline_gateway options (set password 'wrong')")
    refused = found(SERVER, ready.settings)
    assert (refused.verdict, "--rotate-logins" in str(refused.fix)) == ("red", True)
    ready.run("drop server thermocline_gateway cascade")
    gone = found(SERVER, ready.settings)
    assert (gone.verdict, "thermocline init" in str(gone.fix)) == ("warning", True)


def test_a_gateway_of_another_database_is_red(ready: Shop, bare_database: str) -> None:
    """As in a copy of a database, whose server still leads to the gateway of the original."""
    password = "known to both"
    with closing(connect(bare_database, autocommit=True)) as other:
        init_database(bare_database, wanted_places(ready.settings), login=GatewayLogin(password=password))
        assert other.info.dbname != ready.conn.info.dbname
    with start_in_thread(bare_database) as theirs:
        moved = ready.settings.model_copy(update={"gateway_listen": f"127.0.0.1:{theirs.port}"})
        init_database(ready.dsn, wanted_places(moved), login=GatewayLogin(password=password), take_over=True)
        ready.run(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'thermocline gateway' and datname = current_database()"
        )
        finding = found(SERVER, ready.settings, gateway_listen=f"127.0.0.1:{theirs.port}")
        assert (finding.verdict, "serves another database" in finding.seen) == ("red", True), finding


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    """A server that sends one response to every client."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            with closing(listening.accept()[0]) as client:
                client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(timeout=5)
