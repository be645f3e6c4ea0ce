"""`verify` of any table: a registered one with its lake, or a lake table that Postgres does not know."""

from __future__ import annotations

from thermocline.catalog import tables
from thermocline.catalog.maintenance.lake_tables import read_lake_table_entry
from thermocline.core.names import TableName
from thermocline.core.verification import ManifestReport, VerifyReport
from thermocline.maintain.targets import find_target
from thermocline.ops.verify.check_manifests import check_manifests
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect
from thermocline.runtime.progress import ProgressReporter, no_progress


def verify_any(
    dsn: str, name: TableName, report_progress: ProgressReporter = no_progress
) -> VerifyReport | ManifestReport:
    """A registered table with its lake; of a lake table that Postgres does not know, its manifests."""
    with connect(dsn, autocommit=True, application_name="thermocline verify") as conn:
        is_lake_table = tables.read_table(conn, name) is None and read_lake_table_entry(conn, name) is not None
    return verify_lake_table(dsn, name) if is_lake_table else verify(dsn, name, report_progress)


def verify_lake_table(dsn: str, name: TableName) -> ManifestReport:
    """The manifests of a lake table under maintenance, or of a registered table's lake, at the lake's head."""
    with connect(dsn, autocommit=True, application_name="thermocline verify") as conn:
        seen = find_target(conn, name)
    return check_manifests(str(name), seen.metadata_location, seen.snapshot).report
