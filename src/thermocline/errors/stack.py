"""Errors of the machine, the stack, its Postgres and its settings, TC1xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError, ThermoclineError, TryAgainError, UsageError


class JavaMissing(RefusedError):
    """Java 17 or 21 is needed and was not found."""

    code = "TC101"
    hint = "Install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it."


class JavaTooOld(JavaMissing):
    """The Java found is too old; 17 or 21 is needed."""

    code = "TC102"


class CacheUnusable(RefusedError):
    """The cache directory cannot be used."""

    code = "TC103"
    hint = "Make it a directory you may read and write, or name another one by THERMOCLINE_CACHE."


class ArtifactNotFetched(TryAgainError):
    """A jar or the embedded Postgres could not be fetched."""

    code = "TC104"
    hint = (
        "Check the network, or the Maven mirror this machine uses, and run the command again; what was fetched is kept."
    )


class PostgresUnreachable(TryAgainError):
    """Postgres cannot be reached."""

    code = "TC105"
    hint = "Check host, port, database and role of the DSN, and that the server runs and lets this machine in."


class PostgresVersionUnsupported(RefusedError):
    """This Postgres version is not supported; 14 to 18 are."""

    code = "TC106"
    hint = "Upgrade the server, or let `thermocline up` start its own Postgres."


class BadDsn(UsageError):
    """The DSN cannot be parsed."""

    code = "TC107"
    hint = "Write it as postgresql://user@host:port/database or as 'host=… port=… dbname=… user=…'."


class PostgresNotStarted(RefusedError):
    """The embedded Postgres did not start."""

    code = "TC108"
    hint = "The server's log says more: logs/postgres.log in the stack's directory."


class PortTaken(RefusedError):
    """Another program listens on the port."""

    code = "TC109"
    hint = "Stop that program, or use another port."


class BadSetting(UsageError):
    """A setting is unknown or has a wrong value."""

    code = "TC110"
    hint = "`thermocline settings` lists every setting, its value and where it came from."


class DirectoryUnusable(RefusedError):
    """A directory or a file in it cannot be used."""

    code = "TC111"
    hint = "Check its permissions and free space, or name another directory."


class NoStack(RefusedError):
    """There is no stack in the directory."""

    code = "TC112"
    hint = "Run `thermocline up`, or name a stack by --dir (THERMOCLINE_DIR) or a Postgres by --dsn (THERMOCLINE_DSN)."


class StackNotReady(RefusedError):
    """A process of the stack did not become ready."""

    code = "TC113"
    hint = "Its log, in logs/ of the stack's directory, names the reason."


class NotLoopback(RefusedError):
    """The HTTP API has no authentication yet, so it listens on loopback addresses only."""

    code = "TC115"
    hint = "Use 127.0.0.1:PORT, and a tunnel or a proxy that authenticates in front of it."


class StackNotReadyInTime(StackNotReady):
    """A process of the stack did not become ready in time."""

    code = "TC116"
    exit_code = 124


class SparkEnded(ThermoclineError):
    """Spark ended unexpectedly; the worker must be started again."""

    code = "TC117"
    hint = "`thermocline up` does that by itself."


class DsnWithoutTcp(RefusedError):
    """Spark reaches Postgres over TCP only, and the DSN names a socket directory."""

    code = "TC118"
    hint = "Give the DSN a host name or address, for example host=127.0.0.1."


class StackStateUnreadable(RefusedError):
    """The stack's state file cannot be parsed."""

    code = "TC119"
    hint = "Restore it, or remove it when nothing of this stack runs."


class ExtensionMissing(RefusedError):
    """This Postgres lacks the extension postgres_fdw."""

    code = "TC120"
    hint = "Install the contrib package of this Postgres."


class PlacesDiffer(RefusedError):
    """The database keeps its lake or finds its gateway elsewhere than this command was told."""

    code = "TC121"
    hint = (
        "Leave the setting out to use the database's own, or change it for the whole database: `thermocline init "
        "--take-over` with that setting (also of up, gateway and worker). Lakes that exist stay where they are."
    )


class OtherDsn(RefusedError):
    """The stack in this directory belongs to another Postgres."""

    code = "TC122"
    hint = "Leave --dsn (THERMOCLINE_DSN) out to use the stack's own, or name another directory by --dir."


class DemoRefused(RefusedError):
    """The demo uses only the Postgres that the stack made, and there only the schema that it made itself."""

    code = "TC123"
    hint = "Nothing was changed. Run the demo in another directory: `thermocline up --demo --dir …`, without a DSN."


class ClientKeyUnreadable(RefusedError):
    """The client certificate or its key cannot be read for Spark's connection to Postgres."""

    code = "TC124"
    hint = "sslcert and sslkey must be PEM files that this user can read; sslpassword opens an encrypted key."
