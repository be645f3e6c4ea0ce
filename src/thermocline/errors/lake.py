"""Errors of Spark, the lake and its files, TC3xx."""

from __future__ import annotations

from thermocline.errors.roots import OutcomeUnknownError, RefusedError, ThermoclineError, TryAgainError


class LostRace(TryAgainError):
    """Another commit to the lake table came first; nothing was committed."""

    code = "TC301"


class CommitUnknown(OutcomeUnknownError):
    """The commit to the lake was sent, and whether it succeeded is not known."""

    code = "TC302"
    hint = (
        "Files and rows are kept as they are; the next start looks the operation up in the lake and finishes or "
        "abandons it."
    )


class RangeAlreadyInLake(RefusedError):
    """The lake already holds rows of this range; a range enters the lake once."""

    code = "TC303"
    hint = (
        "Somebody else wrote to the lake table, or an operation was committed and not published: `thermocline "
        "doctor` tells which."
    )


class UnrepresentableValue(RefusedError):
    """A value cannot be represented in the lake."""

    code = "TC304"
    hint = (
        "Change the value (Iceberg has no infinity, no NaN in a numeric(p,s) and no 24:00:00), or keep its "
        "partition in Postgres."
    )

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, column: str = "", value: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.column = column
        self.value = value


class LakeLayoutUnsupported(RefusedError):
    """The lake table is laid out in a way that this operation does not support."""

    code = "TC305"
    hint = "docs/limits.md lists what is supported; another engine may rewrite the table into a supported layout."


class SparkTaskFailed(TryAgainError):
    """A Spark task failed."""

    code = "TC306"


class LakeTableMissing(RefusedError):
    """The lake table does not exist."""

    code = "TC307"
    hint = "Its row in the Iceberg catalog, or its metadata file, is gone; `thermocline doctor` checks both."


class EncodingUnsupported(RefusedError):
    """The database encoding is not UTF8."""

    code = "TC308"
    hint = "The lake is UTF-8; move the table to a database with encoding UTF8."


class LakeFileNotWritten(TryAgainError):
    """A lake file could not be written."""

    code = "TC309"
    hint = (
        "Check free space and permissions of the warehouse; what was written is cleaned up and the operation "
        "starts again."
    )


class CommitFailed(TryAgainError):
    """A commit to the lake failed; nothing was committed."""

    code = "TC310"


class CommitInconsistent(RefusedError):
    """The files of a commit do not match the lake table; nothing was committed."""

    code = "TC311"
    hint = "Run the command again; please report this when it happens a second time."


class SparkNotStarted(ThermoclineError):
    """Spark did not start."""

    code = "TC312"
    hint = "Its log says why; `thermocline doctor` checks Java and the jars."


class LakeInputUnreadable(RefusedError):
    """A file of the bin cannot be read; the bin is left as it is."""

    code = "TC320"
    hint = (
        "The file is damaged, or in a format that compaction does not read; other bins go on. Restore it, or remove "
        "it from the table."
    )


class RewriteUnsupported(RefusedError):
    """A file of the bin holds something that compaction cannot rewrite; the bin is left as it is."""

    code = "TC321"
    hint = "Rewrite this table with another engine, or leave it out of compaction (`rewrite_enabled=false`)."
