"""Errors of lake maintenance, TC6xx; part of the tree in `errors`."""

from __future__ import annotations

from thermocline.errors import RefusedError, ThermoclineError, TryAgainError, UsageError, WaitedTooLong


class PolicyKeyUnknown(UsageError):
    """There is no such policy key."""

    code = "TC601"
    hint = "`thermocline policy TABLE` lists every key."


class BadPolicyValue(UsageError):
    """A policy key does not take this value."""

    code = "TC602"
    hint = "`thermocline policy TABLE` shows every key with its value; docs/maintenance.md gives the ranges."


class PolicySpellingsDiffer(UsageError):
    """Two spellings of one policy key were given with different values."""

    code = "TC603"
    hint = "Give one of them."


class OperationUnknown(UsageError):
    """There is no such maintenance operation."""

    code = "TC604"


class BadQuietWindow(UsageError):
    """A quiet window cannot be read."""

    code = "TC605"
    hint = "Write `09:00-17:00 UTC`, several separated by `;`, weekdays in front: `mon-fri 22:00-06:00 Europe/Berlin`."


class PassRunning(TryAgainError):
    """Another pass works on the table."""

    code = "TC606"


class LakeTableUnknown(RefusedError):
    """There is no such Iceberg table under maintenance."""

    code = "TC607"
    hint = "`thermocline lake list` names them; `thermocline lake add NAMESPACE.TABLE` adds one."


class LakeTableIsRegistered(RefusedError):
    """The Iceberg table is a tier of a registered table, which is maintained already."""

    code = "TC608"


class EngineUnknown(UsageError):
    """There is no such maintenance engine."""

    code = "TC609"
    hint = "Engines are spark, spark-procedures and external."


class OutsideThePlan(RefusedError):
    """An engine's result is outside its plan; nothing of it was committed."""

    code = "TC610"


class PassFailed(ThermoclineError):
    """At least one operation of the pass failed; what the others did stays."""

    code = "TC611"
    hint = "`thermocline maintain TABLE --json` shows each operation's outcome; those that succeeded are done."


class SafetyInputsUnreadable(TryAgainError):
    """What must not be deleted cannot be found out, so nothing was done."""

    code = "TC612"


class BadWhere(UsageError):
    """A condition on partitions cannot be read."""

    code = "TC620"
    hint = (
        "Write `day = '2024-03-15'` or `region in ('us', 'eu')`, joined by `and`; only partition columns can be named."
    )


class FormatVersionUnsupported(RefusedError):
    """The table's format version is one that this build does not know; nothing was begun."""

    code = "TC621"


class LakeTypeUnknown(RefusedError):
    """A column's type is one that this build does not read."""

    code = "TC623"
    hint = "The table is left as it is; maintain it with another engine."


class SortOrderUnreadable(UsageError):
    """A sort order cannot be read, or names what the table does not have."""

    code = "TC622"
    hint = "Write `column [asc|desc] [nulls-first|nulls-last], …`."


class GcForbidden(RefusedError):
    """The table's files may be shared with other tables, so nothing of it is deleted."""

    code = "TC630"
    hint = "If no other table uses its files, set the table property gc.enabled to true."


class SpellingsDiffer(RefusedError):
    """Two spellings that may be one file cannot be reconciled; nothing was deleted."""

    code = "TC631"
    hint = (
        "Let the table's location and the catalog's row spell the file alike, or remove the file by hand if it "
        "is another one."
    )


class AnotherOwner(RefusedError):
    """Somebody commits to the table through another catalog, so which of its files are needed is not known here;
    nothing was deleted."""

    code = "TC633"
    hint = (
        "If another catalog has the table, let only one of them delete: set gc.enabled=false here, or drop "
        "it from the other one. "
        "If the file is what a killed commit left, the next commit to the table settles it, or remove the file by hand."
    )


class StoreClockUnknown(TryAgainError):
    """The store's clock cannot be read, so no file's age is known; nothing was deleted."""

    code = "TC634"
    hint = "Deleting needs the right to write in the table's metadata folder."


class FolderInUse(RefusedError):
    """A folder that was to be deleted holds files of a table; nothing was deleted."""

    code = "TC635"
    hint = "Move or drop the table that has its files there."


class ExpiryRaced(TryAgainError):
    """The table moved at every try."""

    code = "TC632"


class StillWaiting(WaitedTooLong):
    """Waited past the limit; the request stays, and a worker will run it."""

    code = "TC613"
    hint = "Look again with `thermocline show TABLE`, or wait longer with --timeout."


class PolicyScopeUnknown(UsageError):
    """A policy belongs to a table, to all tables of a namespace, or to all tables."""

    code = "TC614"
    hint = "Name schema.table, 'namespace.*' or '*'."


class EngineCannot(RefusedError):
    """The engine cannot do what the policy asks."""

    code = "TC615"
    hint = "Choose another engine by --engine, or change the policy."


class FormatUnknown(UsageError):
    """No such format of lake tables is installed."""

    code = "TC616"


class FormatUnusable(RefusedError):
    """A format of lake tables contradicts another, or itself."""

    code = "TC617"
    hint = "Tell whoever wrote the format."
