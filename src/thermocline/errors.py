"""The tree of errors. One root, three branches, each mapped once per shell (exit code, HTTP status, SQLSTATE).

    ThermoclineError
    ├── RefusedError          we will not; nothing was changed
    │   └── UsageError        the request itself is wrong (exit code 2)
    ├── TryAgainError         the next cycle will
    └── OutcomeUnknownError   touch nothing, tell a person

The docstring of a class is its sentence when none is given; `hint` says what to do.
"""

from __future__ import annotations


class ThermoclineError(Exception):
    """Something went wrong."""

    code = "TC000"
    hint = ""
    exit_code = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        if hint is not None:
            self.hint = hint
        super().__init__(self.message)


class RefusedError(ThermoclineError):
    """Refused; nothing was changed."""

    code = "TC001"
    exit_code = 3


class UsageError(RefusedError):
    """The request is not valid."""

    code = "TC002"
    exit_code = 2


class TryAgainError(ThermoclineError):
    """Not now; the next cycle will try again."""

    code = "TC003"
    hint = "Nothing is lost; it is tried again by itself, or run the command again."


class OutcomeUnknownError(ThermoclineError):
    """The outcome is not known; nothing was touched after it."""

    code = "TC004"
    exit_code = 4
    hint = "Look before retrying: `thermocline doctor` names what is unfinished."


# --- stack: TC1xx ---


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
    """An artifact could not be fetched."""

    code = "TC104"
    hint = "Check the network, or the Maven mirror this machine uses, and run the command again; what was fetched is kept."


class PostgresUnreachable(TryAgainError):
    """Postgres cannot be reached."""

    code = "TC105"
    hint = "Check host, port, database and role of the DSN, and that the server runs and lets this machine in."


class PostgresVersionUnsupported(RefusedError):
    """This Postgres version is not supported; 14 to 18 are."""

    code = "TC106"
    hint = "Upgrade the server, or let `thermocline up` start its own Postgres."


class BadDsn(UsageError):
    """The DSN cannot be read."""

    code = "TC107"
    hint = "Write it as postgresql://user@host:port/database or as 'host=… port=… dbname=… user=…'."


class PostgresNotStarted(RefusedError):
    """The embedded Postgres did not start."""

    code = "TC108"


class PortTaken(RefusedError):
    """A port is taken by another program."""

    code = "TC109"


class BadSetting(UsageError):
    """A setting is unknown or has a wrong value."""

    code = "TC110"
    hint = "`thermocline settings` lists every setting, its value and where it came from."


class DirectoryUnusable(RefusedError):
    """A directory cannot be used."""

    code = "TC111"


class NoStack(RefusedError):
    """No stack is here."""

    code = "TC112"
    hint = "Run `thermocline up`, or name a stack by --dir (THERMOCLINE_DIR) or a Postgres by --dsn (THERMOCLINE_DSN)."


class StackNotReady(RefusedError):
    """A process of the stack did not get ready."""

    code = "TC113"


class NotLoopback(RefusedError):
    """The HTTP API has no authentication yet, so it listens on loopback addresses only."""

    code = "TC115"
    hint = "Use 127.0.0.1:PORT, and a tunnel or a proxy that authenticates in front of it."


# --- register and the user's table: TC2xx ---


class BadTableName(UsageError):
    """The table must be schema-qualified, like public.events."""

    code = "TC201"
    hint = "Write schema.table; quote parts that need it, like 'public.\"Ev ents\"'."


class BadDuration(UsageError):
    """That is not a duration of this key's kind."""

    code = "TC202"
    hint = "Use a number with s, m, h, d or w (90d, 12h) for temporal keys and a plain number for integer keys."


class TableNotFound(UsageError):
    """There is no such table."""

    code = "TC203"
    hint = "Check the schema and the spelling; names are case-sensitive when quoted."


class CannotRegister(RefusedError):
    """This table cannot be registered."""

    code = "TC204"


class AlreadyRegistered(RefusedError):
    """This table is registered already, with other arguments."""

    code = "TC205"
    hint = "Unregister it first, or run register with the arguments it has."


class NotRegistered(RefusedError):
    """This table is not registered."""

    code = "TC206"
    hint = "`thermocline tables` lists what is registered; `thermocline register schema.table` adds one."


class MissingPrivilege(RefusedError):
    """The role lacks a privilege this needs."""

    code = "TC207"


class HeapChanged(RefusedError):
    """The table behind this registration is not the one that was registered."""

    code = "TC208"
    hint = "It was dropped and made anew, or changed in a way that cannot be followed; unregister and register it again."


class CatalogTooNew(RefusedError):
    """The catalog in the database is newer than this program."""

    code = "TC209"
    hint = "Upgrade thermocline; an older program must not touch a newer catalog."


class DeltaNotEmpty(RefusedError):
    """Corrections wait that are not in the lake yet."""

    code = "TC210"


class LakeNotWritable(RefusedError):
    """The warehouse cannot be written."""

    code = "TC211"
    hint = "Check that the directory or bucket exists, that this user may write there, and that it has space."


class HeapMoving(TryAgainError):
    """The table changed while it was being registered; nothing was changed."""

    code = "TC212"
    hint = "Run the command again."


class SeamInUse(RefusedError):
    """Other objects depend on the seam."""

    code = "TC213"
    hint = "Drop them, or build them on the table itself, and run the command again."


class RegistrationUnknown(OutcomeUnknownError):
    """The connection was lost while the registration was committed; whether it arrived is not known."""

    code = "TC214"
    hint = "Run register again: it changes nothing when the table is registered, and registers it when it is not."


class NoSuchColumn(UsageError):
    """The table has no such column."""

    code = "TC215"
    hint = "Check the spelling; names are case-sensitive when quoted."


class WrongCombination(UsageError):
    """These options do not go together."""

    code = "TC216"


class ModeNotBuilt(RefusedError):
    """This mode is not built yet."""

    code = "TC217"
    hint = "Use --mode tiered, with --keep-heap when nothing may leave Postgres."


class UnknownProfile(RefusedError):
    """There is no such storage profile."""

    code = "TC218"
    hint = "`thermocline profile list` shows them; `thermocline profile add NAME --warehouse LOCATION` adds one."


class ProfileTaken(RefusedError):
    """A storage profile of this name exists with another warehouse."""

    code = "TC219"
    hint = "Lake tables stay where they were made; add a profile of another name."


class LakeNotAdoptable(RefusedError):
    """The lake table cannot be taken up."""

    code = "TC220"


class NameNotTyped(RefusedError):
    """What cannot be undone needs the table's name."""

    code = "TC221"
    hint = "Type the name of the table when asked, or give it by --yes-drop in a script."


class NotRestorable(RefusedError):
    """The history cannot be put back into the heap."""

    code = "TC222"


# --- spark and the lake: TC3xx ---


class LostRace(TryAgainError):
    """The lake table moved since it was looked at; nothing was committed."""

    code = "TC301"


class CommitUnknown(OutcomeUnknownError):
    """The commit to the lake was sent, and whether it arrived cannot be told now."""

    code = "TC302"
    hint = "Files and rows are kept as they are; the next start looks the operation up in the lake and finishes or abandons it."


class RangeAlreadyInLake(RefusedError):
    """The lake already holds rows of this range; a range enters the lake once."""

    code = "TC303"
    hint = "Somebody else wrote to the lake table, or an operation was committed and not published: `thermocline doctor` tells which."


class NoLakeForm(RefusedError):
    """A value has no form in the lake."""

    code = "TC304"
    hint = "Change the value (infinity, NaN in a numeric(p,s) and 24:00:00 have no twin in Iceberg), or keep its partition in Postgres."

    def __init__(self, message: str | None = None, *, hint: str | None = None, column: str = "", value: str = "") -> None:
        super().__init__(message, hint=hint)
        self.column = column
        self.value = value


class LakeLayoutUnsupported(RefusedError):
    """The lake table is laid out in a way this operation cannot write."""

    code = "TC305"


class SparkTaskFailed(TryAgainError):
    """A Spark task failed."""

    code = "TC306"


class LakeTableMissing(RefusedError):
    """There is no such lake table."""

    code = "TC307"
    hint = "Its row in the Iceberg catalog, or its metadata file, is gone; `thermocline doctor` looks at both."


class EncodingUnsupported(RefusedError):
    """The database is not in UTF-8."""

    code = "TC308"
    hint = "The lake is UTF-8; move the table to a database with encoding UTF8."


class CommitFailed(TryAgainError):
    """A commit to the lake failed; it did not arrive and never will."""

    code = "TC310"


class LakeFileNotWritten(TryAgainError):
    """A lake file could not be written."""

    code = "TC309"
    hint = "Check free space and permissions of the warehouse; what was written is cleaned up and the operation starts again."


# --- tiering: TC4xx ---


class LockNotGranted(TryAgainError):
    """A lock was not to be had within the lock timeout."""

    code = "TC401"


class AnotherWriter(TryAgainError):
    """Another process is working on this table."""

    code = "TC402"


class ChecksumMismatch(RefusedError):
    """The copy in the lake does not equal the rows in the heap."""

    code = "TC403"
    hint = "Nothing was published and the heap is untouched; please report this with the table's column types."


class Fenced(TryAgainError):
    """Another worker took this table over; this one stops."""

    code = "TC404"


class ForeignLakeCommit(RefusedError):
    """Somebody else committed to the lake table."""

    code = "TC405"
    hint = "Nothing was lost: readers still read the published snapshot. Roll the lake table back to it, or unregister and adopt."


class RemoteFailure(ThermoclineError):
    """The worker could not do it."""

    code = "TC406"


class SchemaNotFollowed(TryAgainError):
    """The table's columns changed; the change is followed first."""

    code = "TC409"


class Paused(RefusedError):
    """The table is paused."""

    code = "TC408"
    hint = "`thermocline resume` lets it go on."


class WaitedTooLong(ThermoclineError):
    """Waited past the limit; the work goes on."""

    code = "TC407"
    exit_code = 124
    hint = "Look again later, or wait longer with --timeout."


# --- gateway: TC5xx ---


class LakeFileUnreadable(ThermoclineError):
    """A file of the lake cannot be read."""

    code = "TC501"
    hint = "Nothing was answered from it. Check the store; `thermocline verify` names what is missing."


class UnknownSnapshot(RefusedError):
    """The lake has no such snapshot."""

    code = "TC502"
    hint = "It was expired, or the transaction is older than the lake's retention; begin a new transaction."


class UnknownLakeTable(RefusedError):
    """There is no such table in the lake."""

    code = "TC503"
    hint = "The gateway answers for registered tables only; `thermocline tables` lists them."


class StatementRefused(RefusedError):
    """The gateway does not run this statement."""

    code = "TC504"
    hint = "This login runs what postgres_fdw sends: SELECT over lake tables at a snapshot, cursors and transactions."


class SnapshotMissing(StatementRefused):
    """A read of a lake table must say at which snapshot, by `_snapshot = …`."""

    code = "TC505"
    hint = "Query the seam (for public.events: public_all.events); it names the published snapshot."


class GatewayBusy(TryAgainError):
    """Too many statements wait to be evaluated by Postgres."""

    code = "TC507"
    hint = "Try again, or raise gateway_evaluations."


class CandidatesTooLarge(RefusedError):
    """The statement has to be evaluated by Postgres over more lake rows than the limit allows."""

    code = "TC508"
    hint = "Add a condition on plain columns that the lake can apply, or raise gateway_candidate_limit_bytes."


class LakeTextUnreadable(LakeFileUnreadable):
    """A lake file holds text that is not UTF-8."""

    code = "TC512"
    hint = "Whoever wrote the file wrote it wrongly; nothing was answered from it. Leave the column out, or rewrite the file."


class StatementTooLarge(RefusedError):
    """The statement needs more memory than one connection may use."""

    code = "TC509"
    hint = "Ask for less at once (a narrower range, LIMIT, fewer columns), or raise gateway_connection_memory_bytes or gateway_spill_bytes."


class WholeQueryRefused(RefusedError):
    """The statement cannot be answered by DuckDB exactly as Postgres would."""

    code = "TC510"
    hint = "SET thermocline.engine = auto lets Postgres answer what DuckDB cannot."


class GatewayNotStarted(RefusedError):
    """The gateway did not start."""

    code = "TC506"


# --- explain, pins: TC7xx ---


class PinNotYours(RefusedError):
    """The pin is held by another role."""

    code = "TC701"
    hint = "Only its holder or an operator, who may delete from thermocline.read_pins, releases a pin."


class NotExplainable(RefusedError):
    """The statement cannot be explained."""

    code = "TC702"
    hint = "Give one SELECT, INSERT, UPDATE, DELETE, MERGE or COPY … FROM."


class NothingToRepairFrom(RefusedError):
    """There is nothing to repair from."""

    code = "TC703"
    hint = "Ranges are repaired from the heap; for one that only the lake holds, go back to an older snapshot of the lake."
