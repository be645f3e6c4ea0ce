"""Errors of lake maintenance, TC6xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError, TryAgainError, UsageError


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
    hint = "docs/maintenance.md lists the operations; `all` stands for every one."


class BadQuietWindow(UsageError):
    """The text is not a quiet window."""

    code = "TC605"
    hint = "Write `09:00-17:00 UTC`, several separated by `;`, weekdays in front: `mon-fri 22:00-06:00 Europe/Berlin`."


class PassRunning(TryAgainError):
    """Another pass works on the table."""

    code = "TC606"


class LakeTableNotMaintained(RefusedError):
    """The Iceberg table is not under maintenance."""

    code = "TC607"
    hint = "`thermocline lake list` names the tables; `thermocline lake add NAMESPACE.TABLE` adds one."


class LakeTableIsRegistered(RefusedError):
    """The Iceberg table is a tier of a registered table, which is maintained already."""

    code = "TC608"
    hint = "Name the registered table instead; `thermocline tables` lists them."


class EngineUnknown(UsageError):
    """There is no such maintenance engine."""

    code = "TC609"
    hint = "Engines are spark, spark-procedures and external."


class OutsideThePlan(RefusedError):
    """An engine's result is outside its plan; nothing of it was committed."""

    code = "TC610"
    hint = "Choose another engine by --engine, and report this to the author of the engine."


class SafetyInputsUnreadable(TryAgainError):
    """Which files must not be deleted cannot be determined, so nothing was done."""

    code = "TC612"
    hint = "Grant this role what the sentence names, or run as a role that has it."


class PolicyScopeUnknown(UsageError):
    """A policy belongs to a table, to all tables of a namespace, or to all tables."""

    code = "TC614"
    hint = "Name schema.table, 'namespace.*' or '*'."


class EngineUnsuitable(RefusedError):
    """The engine does not support what the policy demands."""

    code = "TC615"
    hint = "Choose another engine by --engine, or change the policy."


class FormatUnknown(UsageError):
    """No such format of lake tables is installed."""

    code = "TC616"
    hint = "A format is added by installing its package."


class FormatUnusable(RefusedError):
    """A format of lake tables contradicts another, or itself."""

    code = "TC617"
    hint = "Report this to the author of the format."


class ExternalEngineFailed(RefusedError):
    """The program of the engine `external` failed; nothing was committed."""

    code = "TC618"
    hint = "Run it by hand (THERMOCLINE_MAINTENANCE_EXTERNAL_COMMAND), or choose another engine by --engine."


class BadWhere(UsageError):
    """The text is not a condition on partitions."""

    code = "TC620"
    hint = (
        "Write `day = '2024-03-15'` or `region in ('us', 'eu')`, joined by `and`; only partition columns can be named."
    )


class FormatVersionUnsupported(RefusedError):
    """This build does not support the table's format version; nothing was begun."""

    code = "TC621"
    hint = "A newer Thermocline may support it; maintain the table with another engine until then."


class SortOrderUnreadable(UsageError):
    """The text is not a sort order, or it names a column that the table does not have."""

    code = "TC622"
    hint = "Write `column [asc|desc] [nulls-first|nulls-last], …`."


class LakeTypeUnknown(RefusedError):
    """This build does not read the type of a column."""

    code = "TC623"
    hint = "The table is left as it is; maintain it with another engine."


class GcForbidden(RefusedError):
    """The table property gc.enabled is false: its files may belong to other tables, so none is deleted."""

    code = "TC630"
    hint = "If no other table uses its files, set the table property gc.enabled to true."


class PathSpellingsDiffer(RefusedError):
    """Two spellings of a path may name one file; nothing was deleted."""

    code = "TC631"
    hint = (
        "Let the table's location and the catalog's row spell the file alike, or remove the file by hand if it "
        "is another one."
    )


class CommittedByOtherCatalog(RefusedError):
    """Another catalog commits to the table, so which of its files are needed is not known here; nothing was deleted."""

    code = "TC633"
    hint = (
        "If another catalog has the table, let only one of them delete: set gc.enabled=false here, or drop it from the "
        "other one. If a killed commit left the file, the next commit to the table resolves it, or remove the file by "
        "hand."
    )


class StoreClockUnknown(TryAgainError):
    """The store's clock cannot be read, so no file's age is known; nothing was deleted."""

    code = "TC634"
    hint = "Deleting needs the right to write in the table's metadata folder."


class FolderInUse(RefusedError):
    """The folder to be deleted holds files of a table; nothing was deleted."""

    code = "TC635"
    hint = "Move or drop the table that has its files there."


class FolderShared(RefusedError):
    """Another table has its files in the same folder, so which table a file belongs to is not known; nothing was
    deleted."""

    code = "TC636"
    hint = "Move one of the tables to a folder of its own, or drop the name that is not needed."
