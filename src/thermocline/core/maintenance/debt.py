"""Delete debt: which data files carry so many deletes that they are to be rewritten with the deletes applied."""

from __future__ import annotations

from collections.abc import Sequence

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.files import names_file
from thermocline.core.policy.policy import Policy


def deleted_rows(file: LiveDataFile, deletes: Sequence[LiveDeleteFile]) -> int:
    """How many rows of the file position deletes remove; what equality deletes remove cannot be counted without
    reading."""
    return min(sum(_rows_of(delete, file.path) for delete in deletes), file.record_count)


def _rows_of(delete: LiveDeleteFile, path: str) -> int:
    if delete.kind == "equality":
        return 0
    if delete.referenced_file is not None:
        return delete.record_count
    return next((rows for named, rows in (delete.paths or {}).items() if names_file(named, path)), 0)


def most_deleted_rows(file: LiveDataFile, deletes: Sequence[LiveDeleteFile]) -> int | None:
    """How many rows of the file these deletes hide at most; None where an equality delete may hide any number."""
    if any(delete.kind == "equality" for delete in deletes):
        return None
    most = [
        delete.record_count
        if delete.referenced_file is not None or delete.paths is None
        else sum(rows for named, rows in delete.paths.items() if names_file(named, file.path))
        for delete in deletes
    ]
    return min(sum(most), file.record_count)


def is_in_debt(file: LiveDataFile, deletes: Sequence[LiveDeleteFile], policy: Policy) -> bool:
    """Whether the file has as many delete files, or as large a share of deleted rows, as the policy allows at most."""
    if not deletes:
        return False
    if len(deletes) >= policy.delete_compaction_min_deletes:
        return True
    return file.record_count > 0 and deleted_rows(file, deletes) / file.record_count >= policy.delete_ratio_threshold
