"""The report of `thermocline explain`: what a statement would do to the two tiers, without running it.

Pure: parses the document of `thermocline.explain_json()`, adds the cost of lake scans, renders the report as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCost:
    """What one lake scan would read. Footers and rows are read one after the other, so each file takes at least two
    requests."""

    files: int = 0
    delete_files: int = 0
    files_skipped: int = 0
    bytes: int = 0
    rows: int = 0
    requests: int = 0

    def __add__(self, other: LakeCost) -> LakeCost:
        return LakeCost(
            files=self.files + other.files,
            delete_files=self.delete_files + other.delete_files,
            files_skipped=self.files_skipped + other.files_skipped,
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
            requests=self.requests + other.requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPath:
    """The declared path of rows on one side of T."""

    operation: str
    side: str
    path: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """The rows of an INSERT … VALUES by the side of T they lie on."""

    recent: int
    historical: int
    expired: int
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTable:
    """One spanning table in a statement, under the name it was given there."""

    table: str
    seam: str
    named: str
    mode: str
    operation: str
    verdict: str
    deciding: str | None
    t: str
    s: int | None
    r: str | None
    heap: tuple[str, ...]
    spill: bool
    delta: bool
    questions: tuple[str, ...]
    paths: tuple[ExplainedPath, ...]
    rows: RowCounts | None
    refusal: str | None
    warnings: tuple[str, ...]
    tier_key: str
    cost: LakeCost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole report; `refusal` is the error of Postgres when it does not accept the statement."""

    statement: str
    refusal: str | None
    sqlstate: str | None
    tables: tuple[ExplainedTable, ...]


def parse_explanation(document: Mapping[str, Any]) -> Explanation:
    """The document of `thermocline.explain_json()`."""
    refused: Mapping[str, Any] = document["refusal"] or {}
    return Explanation(
        statement=document["statement"],
        refusal=refused.get("sentence"),
        sqlstate=refused.get("sqlstate"),
        tables=tuple(_parse_table(table) for table in document["tables"]),
    )


def _parse_table(document: Mapping[str, Any]) -> ExplainedTable:
    plain = {
        name: document[name]
        for name in ("table", "seam", "named", "mode", "operation", "verdict", "deciding", "t", "s", "r", "tier_key")
    }
    return ExplainedTable(
        **plain,
        spill=document["spill"],
        delta=document["delta"],
        refusal=document["refusal"],
        heap=tuple(document["heap"]),
        questions=tuple(document["lake"]),
        paths=tuple(ExplainedPath(**path) for path in document["paths"]),
        rows=None if document["rows"] is None else RowCounts(**document["rows"]),
        warnings=tuple(document["warnings"]),
    )


def render_explanation(report: Explanation) -> list[str]:
    """The report as lines of text, as `thermocline.explain()` writes them, with the cost of lake scans."""
    if report.refusal:
        return [f"refused by Postgres ({report.sqlstate}): {report.refusal}"]
    if not report.tables:
        return ["no spanning table is touched"]
    return [line for table in report.tables for line in _render_table(table)]


def _render_table(table: ExplainedTable) -> list[str]:
    lines = [f"{table.operation} on {table.table} ({table.mode}), named by its {table.named}"]
    lines.append(f"  {table.verdict}" + (f": {table.deciding}" if table.deciding else ""))
    lines.append(f"  T = {table.t}, S = {'none' if table.s is None else table.s}, R = {table.r or 'none'}")
    if table.rows is not None:
        lines.append(
            f"  rows: {table.rows.recent} recent, {table.rows.historical} historical, {table.rows.expired} "
            "below the retention line,"
            f" {table.rows.unknown} not known before it runs"
        )
    if table.operation != "insert":
        lines.append(
            f"  heap: {', '.join(table.heap) or 'not read'}; spill: {_render_whether(table.spill, 'read')};"
            f" lake: {_render_whether(bool(table.questions), 'asked')}; delta: {_render_whether(table.delta, 'read')}"
        )
    if table.cost is not None:
        lines.append(_render_cost(table.cost))
    lines += [f"  {path.side} rows, {path.operation}: {path.sentence}" for path in table.paths]
    lines += [f"  warning: {warning}" for warning in table.warnings]
    return lines + ([f"  refused: {table.refusal}"] if table.refusal else [])


def _render_cost(cost: LakeCost) -> str:
    if not cost.files:
        return f"  lake: reads no file; {cost.files_skipped:,} skipped by their bounds"
    deletes = f" and {cost.delete_files:,} delete files" if cost.delete_files else ""
    return (
        f"  lake: {cost.files:,} files{deletes}, {cost.bytes:,} bytes at the most, {cost.requests:,} requests "
        "at the least;"
        f" {cost.files_skipped:,} files skipped by their bounds"
    )


def _render_whether(is_so: bool, verb: str) -> str:
    return verb if is_so else f"not {verb}"


def total_cost(costs: Sequence[LakeCost]) -> LakeCost:
    return sum(costs, LakeCost())
