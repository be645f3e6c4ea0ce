"""Errors of Spark and the lake, TC3xx."""

from __future__ import annotations

from thermocline.errors.roots import OutcomeUnknownError, RefusedError, TryAgainError


class LostRace(TryAgainError):
    """The lake table moved since it was looked at; nothing was committed."""

    code = "TC301"


class CommitUnknown(OutcomeUnknownError):
    """The commit to the lake was sent, and whether it arrived cannot be told now."""

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


class NoLakeForm(RefusedError):
    """A value has no form in the lake."""

    code = "TC304"
    hint = (
        "Change the value (infinity, NaN in a numeric(p,s) and 24:00:00 have no twin in Iceberg), or keep its "
        "partition in Postgres."
    )

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, column: str = "", value: str = ""
    ) -> None:
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
    hint = (
        "Check free space and permissions of the warehouse; what was written is cleaned up and the operation "
        "starts again."
    )
