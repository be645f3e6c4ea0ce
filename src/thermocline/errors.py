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


# --- spark and the lake: TC3xx ---


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


# --- gateway: TC5xx ---
