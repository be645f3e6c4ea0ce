"""Errors of registration and of the user's table, TC2xx."""

from __future__ import annotations

from thermocline.errors.roots import OutcomeUnknownError, RefusedError, TryAgainError, UsageError


class BadTableName(UsageError):
    """The text is not the name of a table."""

    code = "TC201"
    hint = "Write schema.table, or a table that the search_path finds; quote what needs it, like 'public.\"Ev ents\"'."


class BadDuration(UsageError):
    """The text is not a duration for this type of tier key."""

    code = "TC202"
    hint = (
        "Use what Postgres reads as an interval ('30 days', '2 hours 30 minutes', P30D), 90d or 12h; a plain number "
        "for integer keys."
    )


class TableNotFound(UsageError):
    """There is no such table."""

    code = "TC203"
    hint = "Check the schema and the spelling; names are case-sensitive when quoted."


class CannotRegister(RefusedError):
    """This table cannot be registered."""

    code = "TC204"
    hint = "docs/limits.md lists what a table needs to be registered."


class AlreadyRegistered(RefusedError):
    """This table is registered already, with other arguments."""

    code = "TC205"
    hint = "Unregister it first, or run register with the arguments it has."


class NotRegistered(RefusedError):
    """This table is not registered."""

    code = "TC206"
    hint = "`thermocline tables` lists what is registered; `thermocline register schema.table` adds one."


class MissingPrivilege(RefusedError):
    """The role lacks a privilege that this command needs."""

    code = "TC207"
    hint = "Grant it to the role, or run the command as a role that has it."


class HeapChanged(RefusedError):
    """The table behind this registration is not the one that was registered."""

    code = "TC208"
    hint = (
        "It was dropped and created again, or changed in a way that cannot be followed; unregister and register it "
        "again."
    )


class CatalogTooNew(RefusedError):
    """The catalog in the database is newer than this program."""

    code = "TC209"
    hint = "Upgrade thermocline; an older program must not touch a newer catalog."


class DeltaNotEmpty(RefusedError):
    """Corrections are pending that are not in the lake yet."""

    code = "TC210"
    hint = "Give --fold to fold them into the lake first."


class LakeNotWritable(RefusedError):
    """The warehouse cannot be written."""

    code = "TC211"
    hint = "Check that the directory or bucket exists, that this user may write there, and that it has space."


class ChangedDuringRegistration(TryAgainError):
    """The table changed while it was being registered; nothing was changed."""

    code = "TC212"
    hint = "Run the command again."


class SeamInUse(RefusedError):
    """Other objects depend on the seam."""

    code = "TC213"
    hint = "Drop them, or build them on the table itself, and run the command again."


class RegistrationUnknown(OutcomeUnknownError):
    """The connection was lost while the registration was committed; whether it was committed is not known."""

    code = "TC214"
    hint = "Run register again: it changes nothing when the table is registered, and registers it when it is not."


class NoSuchColumn(UsageError):
    """The table has no such column."""

    code = "TC215"
    hint = "Check the spelling; names are case-sensitive when quoted."


class WrongCombination(UsageError):
    """These options exclude each other."""

    code = "TC216"
    hint = "Leave one of them out."


class ModeNotImplemented(RefusedError):
    """This mode is not implemented yet."""

    code = "TC217"
    hint = "Use --mode tiered, with --keep-heap when nothing may leave Postgres."


class UnknownProfile(RefusedError):
    """There is no such storage profile."""

    code = "TC218"
    hint = "`thermocline profile list` shows them; `thermocline profile add NAME --warehouse LOCATION` adds one."


class ProfileTaken(RefusedError):
    """A storage profile of this name exists with another warehouse."""

    code = "TC219"
    hint = "Lake tables stay where they were created; add a profile under another name."


class LakeNotAdoptable(RefusedError):
    """The lake table cannot be adopted."""

    code = "TC220"
    hint = "Undo the change that the sentence names, or drop the lake: `thermocline unregister TABLE --drop-lake`."


class NotConfirmed(RefusedError):
    """The command cannot be undone, and the table's name was not given to confirm it."""

    code = "TC221"
    hint = "Type the name of the table when asked, or give it by --yes-drop in a script."


class NotTruncated(RefusedError):
    """The table was not truncated."""

    code = "TC223"
    hint = "Drop the foreign keys that refer to the table, or the triggers that keep its rows, and run it again."


class HeapLacksRows(RefusedError):
    """The lake alone holds rows of a table whose heap is meant to hold every row."""

    code = "TC224"
    hint = (
        "Give --restore-heap: they are restored into the heap before the lake is dropped. Delete them through the "
        "seam if they are not needed."
    )


class SpillNotCaptured(RefusedError):
    """Rows in the spill were not captured, and readers do not see them."""

    code = "TC225"
    hint = (
        "They would be lost: run `thermocline verify --repair` first. The spill's capture trigger was disabled for a "
        "time."
    )


class TruncationUndone(RefusedError):
    """The truncation was killed before it was published; the table keeps its rows."""

    code = "TC226"
    hint = "Run `thermocline truncate` again."


class CatalogTooOld(RefusedError):
    """The catalog in the database is older than any that this program upgrades."""

    code = "TC227"
    hint = "Upgrade it with an earlier release first; each release upgrades from the one before."


class MigrationChanged(RefusedError):
    """The catalog was made by other migrations than this program carries."""

    code = "TC228"
    hint = "Use the program that made this catalog, or a later release of it; an unreleased build may have made it."


class CatalogObjectInUse(RefusedError):
    """A function or view of the catalog must be dropped, and objects that are not ours depend on it."""

    code = "TC229"
    hint = "Drop the objects that depend on it, run `thermocline init`, and create them again."


class CatalogNotUpgraded(RefusedError):
    """The catalog in the database is older than this program needs."""

    code = "TC230"
    hint = "Run `thermocline init`, which upgrades it."


class ProfileInUse(RefusedError):
    """The storage profile holds lakes."""

    code = "TC231"
    hint = "Unregister these tables with --drop-lake first; a profile is removed when no lake is in it."


class SettingsChanged(RefusedError):
    """The settings of the table were changed by somebody else at the same time."""

    code = "TC232"
    hint = "`thermocline show` tells what holds now; run the command again."
