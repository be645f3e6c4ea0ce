"""Errors of tiering, folding and everything else that moves rows, TC4xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError, ThermoclineError, TryAgainError, UsageError


class LockNotGranted(TryAgainError):
    """The lock was not acquired within the lock timeout."""

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
    """Another program committed to the lake table."""

    code = "TC405"
    hint = (
        "Nothing was lost: readers still read the published snapshot. Roll the lake table back to it, or "
        "unregister and adopt."
    )


class WorkerFailed(ThermoclineError):
    """The worker failed to perform the request."""

    code = "TC406"
    hint = "The worker's log says more."


class WaitedTooLong(ThermoclineError):
    """The wait timed out; the work goes on."""

    code = "TC407"
    exit_code = 124
    hint = "Look again later with `thermocline show TABLE`, or wait longer with --timeout."


class Paused(RefusedError):
    """The table is paused."""

    code = "TC408"
    hint = "`thermocline resume` ends the pause."


class SchemaNotFollowed(TryAgainError):
    """The table's columns changed; the lake's schema follows first."""

    code = "TC409"


class PartitionGone(TryAgainError):
    """A partition left the table while it was being copied to the lake."""

    code = "TC410"


class CopiedDatabase(RefusedError):
    """The database is a copy of the one that its lake belongs to."""

    code = "TC411"
    hint = (
        "Both name the same lake files, and what this one rewrites or expires the other would lose. Reading is safe. "
        "When the original is gone for good (it was moved here, or upgraded), say so: `thermocline init --claim`."
    )


class LakeNewerThanDatabase(RefusedError):
    """The lake holds commits that this database does not know: the database was restored to an earlier moment."""

    code = "TC412"
    hint = (
        "Nothing is written to the lake and nothing is deleted until `thermocline recover` has run: it "
        "brings the lake to the newest state that agrees with this database, or says what is missing. Reading is "
        "safe as far as the files are there."
    )


class LakesNotCompared(TryAgainError):
    """The lakes were not compared with the journal since Postgres started."""

    code = "TC413"
    hint = "The worker compares them in its next cycle, `thermocline recover` at once."


class ChangedByTrigger(RefusedError):
    """A trigger of the table would drop or change rows that Thermocline only moves."""

    code = "TC414"
    hint = (
        "Let the trigger return such rows unchanged, or disable it meanwhile. It fires because it is enabled ALWAYS, "
        "or because the role that Thermocline runs as is no superuser."
    )


class JumpNotPending(UsageError):
    """No jump to this value waits for a decision."""

    code = "TC415"
    hint = "`thermocline show` names the jump that waits, and what to type."


class WrittenDuringRestore(TryAgainError):
    """Rows were written to a range while its history was being restored."""

    code = "TC416"


class CycleFailed(ThermoclineError):
    """At least one table failed in the cycle."""

    code = "TC417"
    hint = "The log lines say which and why."


class WaitInterrupted(ThermoclineError):
    """The wait was ended by Ctrl-C; the worker goes on by itself."""

    code = "TC418"
    exit_code = 130
    hint = "`thermocline pause TABLE` stops it after the step it is in."
