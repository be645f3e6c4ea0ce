"""A Postgres that wants a password, TLS and a client certificate, all of it told by libpq's files alone: every process
finds them as libpq does, Spark's JDBC connection and the gateway's relay included."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from tests.stack.conftest import CommandLine

from thermocline.errors import ClientKeyUnreadable, PostgresUnreachable
from thermocline.gateway.sessions.upstream import tls_context
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.catalogs.jdbc import jdbc_url
from thermocline.lake.catalogs.jdbc_tls import jdbc_tls
from thermocline.runtime import pg
from thermocline.runtime.artifacts import spark_jar_paths
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port, server_user
from thermocline.runtime.settings_layers import load_settings
from thermocline.stack.locate import require_dsn, resolve_settings
from thermocline.stack.prepare import prepare_stack
from thermocline.stack.state import write_state

PASSWORD = "of: the\\ file"
HBA = "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"
EVENTS = """
create table public.events (id bigint, ts timestamptz, v int, primary key (id, ts)) partition by range (ts);
create table public.e1 partition of public.events for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.e2 partition of public.events for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
insert into public.events select i, timestamptz '2026-01-01 00:00+00' + i * interval '1 hour', i
  from generate_series(0, 999) i;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The server, and the directory with libpq's files."""

    server: PostgresServer
    files: Path

    @property
    def environment(self) -> dict[str, str]:
        """All that a shell needs to know."""
        return {"PGSERVICEFILE": str(self.files / "services"), "PGPASSFILE": str(self.files / "passwords")}


def _sign(
    directory: Path, name: str, issuer: tuple[x509.Certificate, rsa.RSAPrivateKey] | None
) -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
    """A certificate and its key in files of this name; self-signed, with CA rights, where no issuer is given."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(issuer[1] if issuer else key, hashes.SHA256())
    )
    (directory / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    (directory / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    (directory / f"{name}.key").chmod(0o600)
    return made, key


@pytest.fixture(scope="module")
def guarded(clusters: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    files = tmp_path_factory.mktemp("libpq")
    authority = _sign(files, "authority", None)
    for name in ("server", "client"):
        _sign(files, name, authority)
    server = PostgresServer(clusters / "guarded", free_port(), FAST_TEST_SETTINGS, password=PASSWORD)
    server.init()
    data = server.data_dir.resolve()
    for name in ("authority.crt", "server.crt", "server.key"):
        shutil.copy(files / name, data / name)
        if user := server_user():
            shutil.chown(data / name, user)
    server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("create database guarded")
        for setting in ("ssl = on", "ssl_ca_file = 'authority.crt'"):
            conn.execute(f"alter system set {setting}".encode())
        (data / "pg_hba.conf").write_text(HBA)
        conn.execute("select pg_reload_conf()")
    (files / "passwords").write_text("localhost:*:guarded:postgres:of\\: the\\\\ file\n")
    (files / "passwords").chmod(0o600)
    (files / "services").write_text(
        f"[prod]\nhost=localhost\nport={server.port}\ndbname=guarded\nuser=postgres\nsslmode=verify-full\n"
        f"sslrootcert={files}/authority.crt\nsslcert={files}/client.crt\nsslkey={files}/client.key\n"
    )
    yield Guarded(server=server, files=files)
    server.remove()


@pytest.fixture
def shell(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """This process as a shell with the two variables."""
    for name, value in guarded.environment.items():
        monkeypatch.setenv(name, value)
    return guarded


@pytest.mark.conforms("O-174")
def test_the_endpoint_has_what_the_service_and_the_passfile_say(shell: Guarded) -> None:
    with pg.connect("service=prod") as conn:
        endpoint = pg.read_endpoint(conn)
    files = str(shell.files)
    assert endpoint == pg.Endpoint(
        host="localhost",
        port=shell.server.port,
        dbname="guarded",
        user="postgres",
        password=PASSWORD,
        tls=pg.ClientTls(
            mode="verify-full",
            root=f"{files}/authority.crt",
            certificate=f"{files}/client.crt",
            key=f"{files}/client.key",
        ),
    )
    properties = jdbc_tls(endpoint.tls)
    assert (properties["sslmode"], properties["sslrootcert"]) == ("verify-full", f"{files}/authority.crt")
    assert os.stat(properties["sslkey"]).st_mode & 0o077 == 0


def test_files_of_the_home_directory_are_found_and_a_root_certificate_is_verified_in_every_mode(
    shell: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".postgresql"
    home.mkdir()
    for name, as_name in (("client.crt", "postgresql.crt"), ("client.key", "postgresql.key")):
        shutil.copy(shell.files / name, home / as_name)
    monkeypatch.setenv("HOME", str(tmp_path))
    dsn = f"host=localhost port={shell.server.port} user=postgres dbname=guarded"
    modes = []
    for mode in ("prefer", "require"):
        with pg.connect(f"{dsn} sslmode={mode}") as conn:
            tls = pg.read_endpoint(conn).tls
        assert (tls.certificate, tls.key) == (str(home / "postgresql.crt"), str(home / "postgresql.key"))
        modes.append(tls.mode)
    shutil.copy(shell.files / "authority.crt", home / "root.crt")
    with pg.connect(f"{dsn} sslmode=require") as conn:
        tls = pg.read_endpoint(conn).tls
    assert [*modes, tls.mode] == ["prefer", "require", "verify-ca"]
    assert tls.root == str(home / "root.crt")
    assert jdbc_tls(pg.ClientTls(mode="verify-full", root="system"))["sslfactory"].endswith("DefaultJavaSSLFactory")


def test_a_key_that_cannot_be_read_is_refused_with_its_path(guarded: Guarded, tmp_path: Path) -> None:
    broken = tmp_path / "broken.key"
    broken.write_text("no key")
    with pytest.raises(ClientKeyUnreadable, match=f"with the key {broken} cannot be read"):
        jdbc_tls(pg.ClientTls(mode="require", certificate=str(guarded.files / "client.crt"), key=str(broken)))


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_root_certificate_that_is_gone_does_not_turn_verification_off(
    shell: Guarded, tmp_path: Path, mode: Literal["verify-ca", "verify-full"]
) -> None:
    root = tmp_path / "root.crt"
    shutil.copy(shell.files / "authority.crt", root)
    with pg.connect(f"service=prod sslmode={mode} sslrootcert={root}") as conn:
        assert pg.read_endpoint(conn).tls.mode == mode
        root.unlink()
        with pytest.raises(PostgresUnreachable, match=f"the root certificate {root} does not exist, and sslmode is"):
            pg.read_endpoint(conn)
    context = tls_context(pg.ClientTls(mode=mode))
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(PostgresUnreachable, match=f"with the TLS files {root}: No such file"):
        tls_context(pg.ClientTls(mode=mode, root=str(root)))


def test_a_running_spark_session_connects_with_a_renewed_client_certificate(shell: Guarded, tmp_path: Path) -> None:
    for name in ("client.crt", "client.key"):
        shutil.copy(shell.files / name, tmp_path / name)
    with pg.connect(f"service=prod sslcert={tmp_path}/client.crt sslkey={tmp_path}/client.key") as conn:
        endpoint = pg.read_endpoint(conn)
    properties = {**jdbc_tls(endpoint.tls), "user": endpoint.user, "password": endpoint.password}
    jars = ":".join(map(str, spark_jar_paths(object_store=False)))
    conf = SparkConf(loadDefaults=False).set("spark.driver.extraClassPath", jars)
    java = launch_gateway(conf)  # type: ignore[no-untyped-call]
    try:

        def read_serial_number() -> int:
            """Of the certificate that the JDBC driver shows to Postgres."""
            given = java.jvm.java.util.Properties()
            for name, value in properties.items():
                given.setProperty(name, value)
            connection = java.jvm.org.postgresql.Driver().connect(jdbc_url(endpoint), given)
            rows = connection.createStatement().executeQuery(
                "select client_serial from pg_stat_ssl where pid = pg_backend_pid()"
            )
            rows.next()
            serial = int(rows.getString(1))
            connection.close()
            return serial

        former = x509.load_pem_x509_certificate((tmp_path / "client.crt").read_bytes())
        assert read_serial_number() == former.serial_number
        authority = (
            x509.load_pem_x509_certificate((shell.files / "authority.crt").read_bytes()),
            serialization.load_pem_private_key((shell.files / "authority.key").read_bytes(), None),
        )
        renewed, _ = _sign(tmp_path, "client", authority)  # type: ignore[arg-type]
        key = (tmp_path / "client.key").read_bytes()
        shutil.copy(shell.files / "client.key", tmp_path / "client.key")
        lake_catalog().renew_credentials()  # the key did not follow yet
        assert read_serial_number() == former.serial_number
        (tmp_path / "client.key").write_bytes(key)
        lake_catalog().renew_credentials()
        assert read_serial_number() == renewed.serial_number
        assert jdbc_tls(endpoint.tls)["sslkey"] == properties["sslkey"]
        assert os.stat(properties["sslkey"]).st_mode & 0o077 == 0
    finally:
        java.shutdown()
        java.proc.stdin.close()
        java.proc.wait()


def test_the_password_of_a_client_key_is_kept_beside_the_passfile_and_not_in_stack_json(
    shell: Guarded, tmp_path: Path
) -> None:
    opened_by = "opens 'the\\ key"
    key = serialization.load_pem_private_key((shell.files / "client.key").read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(opened_by.encode()),
        )
    )
    encrypted.chmod(0o600)
    directory = tmp_path / "stack"
    directory.mkdir()
    dsn = psycopg.conninfo.make_conninfo("service=prod", sslkey=str(encrypted), sslpassword=opened_by)
    for given in ({"dsn": dsn}, {}):
        state = prepare_stack(load_settings({"dir": directory, **given}))
        write_state(directory, state)
        assert psycopg.conninfo.conninfo_to_dict(state.postgres_dsn).keys().isdisjoint({"password", "sslpassword"})
        kept = directory / "secrets" / "sslpassword"
        assert (kept.read_text(), kept.stat().st_mode & 0o077) == (opened_by, 0)
    with pg.connect(require_dsn(resolve_settings(load_settings({"dir": directory})))) as conn:
        assert pg.read_endpoint(conn).tls.key_password == opened_by
    for name, value in shell.environment.items():
        os.environ[name] = value  # the stack's DSN is complete without them, so they were forgotten
    prepare_stack(load_settings({"dir": directory, "dsn": "service=prod"}))
    assert not kept.exists()


@pytest.mark.conforms("O-174", "O-173")
def test_a_stack_works_by_a_service_and_a_passfile_and_needs_them_no_more(
    thermocline: CommandLine, guarded: Guarded, stack_dir: Path
) -> None:
    up = ("up", "--detach", "--dir", stack_dir, "--json")
    started = thermocline(*up, "--dsn", "service=prod", **guarded.environment)
    assert started.code == 0, started.err
    dsn = started.document()["postgres"]["dsn"]
    assert PASSWORD not in (stack_dir / "stack.json").read_text()
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert conn.pgconn.ssl_in_use
        conn.execute(EVENTS)
        at = ("public.events", "--dir", stack_dir)
        assert thermocline("register", *at).code == 0
        # By the worker, then by this command itself: ADBC, psycopg in tasks, and the JDBC catalog in both.
        for change, where in (("v", ()), ("v + 1", ("--local",))):
            conn.execute(f"update public_all.events set v = {change} where id < 10".encode())
            moved = thermocline("tier", *at, *where)
            assert moved.code == 0, moved.err
            folded = thermocline("fold", *at, *where)
            assert folded.code == 0, folded.err
        assert conn.execute("select count(*), sum(v) from public_all.events").fetchone() == (1000, 499_510)
        assert conn.execute("select s is not null from thermocline.cutline").fetchone() == (True,)
    with psycopg.connect(started.document()["gateway"]["dsn"]) as gateway:
        assert gateway.execute("select count(*) from public_all.events").fetchone() == (1000,)
        assert gateway.execute("select current_database()").fetchone() == ("guarded",)
    assert thermocline("down", "--dir", stack_dir).code == 0
    again = thermocline(*up)  # a shell that knows of no service
    assert again.code == 0, again.err
    assert again.document()["postgres"]["dsn"] == dsn


@pytest.mark.conforms("O-174")
def test_a_child_that_cannot_start_is_told_with_its_own_code_and_hint(
    thermocline: CommandLine, stack_dir: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.crt"
    broken.write_text("no certificate")
    told = {"THERMOCLINE_GATEWAY_TLS_CERT": str(broken), "THERMOCLINE_GATEWAY_TLS_KEY": str(broken)}
    for detach in ((), ("--detach",)):
        refused = thermocline("up", *detach, "--dir", stack_dir, **told)
        assert refused.code == 3, refused.err
        assert f"gateway: The certificate {broken} with key {broken} cannot be used" in refused.err
        assert "error TC506" in refused.err
        assert refused.err.splitlines()[-1].startswith("hint: ")
        assert not (stack_dir / "stack.json").exists()
