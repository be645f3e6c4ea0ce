"""The background verifier: one range at a time, the one compared longest ago, so that drift is found without anybody
asking."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog import tables
from thermocline.catalog import verified_ranges as verified
from thermocline.core.names import TableName
from thermocline.core.verification import CheckedRange, RangeVerdict, plan_next_range
from thermocline.errors import ThermoclineError
from thermocline.ops.verify.verify_table import verify_range
from thermocline.runtime.pg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRange:
    """The range that was compared."""

    table: TableName
    verdict: RangeVerdict

    @property
    def sentence(self) -> str:
        result = self.verdict.problem or f"{self.verdict.rows:,} rows agree"
        return f"{self.table}, {self.verdict.range}: {result}."


def verify_next_range(conn: Connection, dsn: str, interval_seconds: float) -> ComparedRange | None:
    """Compare the next range that is due and note what was found; None when nothing is due or no table has anything in
    the lake.

    A table that cannot be compared does not keep the others from it; its reason is raised when none of them had a range
    either.
    """
    names = {table.id: table.name for table in tables.read_tables(conn)}
    problem: ThermoclineError | None = None
    for table_id in verified.read_due_tables(conn, interval_seconds):
        try:
            if table_id in names and (compared := _verify_one(conn, dsn, table_id, names[table_id])):
                return compared
        except ThermoclineError as reason:
            problem = reason
    if problem is not None:
        raise problem
    return None


def _verify_one(conn: Connection, dsn: str, table_id: int, name: TableName) -> ComparedRange | None:
    checked = verified.read_checked(conn, table_id)
    current_ranges: tuple[CheckedRange, ...] = ()

    def choose(ranges: tuple[CheckedRange, ...]) -> CheckedRange | None:
        nonlocal current_ranges
        current_ranges = ranges
        return plan_next_range(ranges, checked)

    found = verify_range(dsn, name, choose)
    if found is None:
        return None
    checked_range, verdict = found
    verified.forget_others(conn, table_id, current_ranges)
    verified.note_range(conn, table_id, checked_range, verdict)
    compared = ComparedRange(table=name, verdict=verdict)
    if verdict.problem:
        tables.insert_event(conn, table_id, "verify", compared.sentence)
    return compared
