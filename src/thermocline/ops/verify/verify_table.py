"""Verification: what the lake's files and the delta hold, against what Postgres shows and what the journal says was
written.

Everything is read at one point in time. Each range below the cut-line is compared as a whole (rows, ends of the tier
key, checksum of all columns) and, where it differs, key by key. The yardstick is the heap where it holds the range
whole (`thermocline.partitions_in_heap`; with keep-heap everywhere), else what readers see through the seam; there too
readers must see every row that the heap has. Each file that tiering wrote is held against the sum that was taken from
the heap then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from psycopg import sql

from thermocline.catalog import journal
from thermocline.core.axis import AXIS_MAX, render_axis
from thermocline.core.manifest_entry import EntryProblem
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine
from thermocline.core.verification import (
    MAX_KEYS,
    SPILL_ABOVE_CUTLINE,
    CheckedRange,
    RangeVerdict,
    VerifyReport,
    plan_ranges,
)
from thermocline.errors import LakeLayoutUnsupported
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.read.scan import may_apply
from thermocline.lake.read.table_metadata import SnapshotFile, read_lake_table
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.ops.verify.check_manifests import check_manifests
from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.values.row_checksum import HASH_VERSION, RowSum, sum_hashes
from thermocline.runtime.pg import Connection, connect, load_queries
from thermocline.runtime.progress import Meter, ProgressReporter, no_progress
from thermocline.seam.heap.lost_captures import read_lost_captures, trust_captures, trust_spill_capture
from thermocline.seam.render import key_between
from thermocline.seam.spill import count_uncaptured
from thermocline.spark.kernels.verify_query import plan_hash_query, plan_key_query
from thermocline.spark.kernels.verify_rows import (
    U64,
    FileRows,
    LakeShape,
    read_file_rows,
    read_key_texts,
    why_not_intact,
)

_QUERIES = load_queries("thermocline.ops", "queries/verify.sql")
_BATCH_ROWS = 50_000
_TASKS_PER_PARTITION = 100_000  # how ops/tier/tiering.py numbers the tasks, and so the files, of each partition


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows as hashes: of each whole row and of its key."""

    rows: U64
    ids: U64

    @property
    def sum(self) -> RowSum:
        return sum_hashes(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lake:
    """The snapshot's files, read."""

    files: Mapping[str, FileRows]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifyRun:
    conn: Connection
    table: SpanningTable
    cut: CutLine
    shape: LakeShape
    lake: _Lake


def verify(dsn: str, name: TableName, report_progress: ProgressReporter = no_progress) -> VerifyReport:
    """Compare every range of one table below its cut-line."""
    with connect(dsn, application_name="thermocline verify") as conn:
        table, cut, shape = _begin(conn, name)
        registered = table.registered
        lost = read_lost_captures(conn, registered.id)
        lake = _read_lake(conn, table, cut, shape, report_progress=report_progress)
        work = _VerifyRun(conn=conn, table=table, cut=cut, shape=shape, lake=lake)
        # Without every file, sums and rows would differ for that reason alone.
        written, notes = ((), ()) if lake.problems else _check_written(work)
        parts = () if lake.problems else read_ranges(conn, table, cut)
        meter = Meter(report_progress, f"comparing {name}", len(parts), "ranges")
        ranges = tuple(_check_counted(work, part, meter) for part in parts)
        ahead = _check_spill_above_cutline(work)
        manifests = () if lake.problems else _check_manifests(work)
        conn.rollback()
        trust_captures(conn, registered.id, lost, compared := _without_problem(parts, ranges))
        if not lake.problems and len(compared) == len(parts) and not ahead:
            trust_spill_capture(conn, registered.id, lost)
    return VerifyReport(
        table=str(name),
        cut_line=render_axis(registered.key_type, cut.t),
        snapshot=cut.s,
        ranges=(*ranges, *ahead),
        problems=(*lake.problems, *written),
        notes=notes,
        manifests=manifests,
    )


def verify_range(
    dsn: str, name: TableName, choose: Callable[[tuple[CheckedRange, ...]], CheckedRange | None]
) -> tuple[CheckedRange, RangeVerdict] | None:
    """Compare one range, the one that is chosen, reading only the files that can hold a row of it."""
    with connect(dsn, application_name="thermocline verify") as conn:
        table, cut, shape = _begin(conn, name)
        part = choose(read_ranges(conn, table, cut))
        if part is None:
            return None
        lost = read_lost_captures(conn, table.registered.id)
        lake = _read_lake(conn, table, cut, shape, part)
        work = _VerifyRun(conn=conn, table=table, cut=cut, shape=shape, lake=lake)
        unread = "; ".join(lake.problems)
        verdict = _verdict(work, part, RowSum(), unread) if unread else _check_range(work, part)
        conn.rollback()
        trust_captures(conn, table.registered.id, lost, _without_problem([part], [verdict]))
    return part, verdict


def _without_problem(parts: Iterable[CheckedRange], verdicts: Iterable[RangeVerdict]) -> list[tuple[int, int]]:
    return [(part.lo, part.hi) for part, verdict in zip(parts, verdicts, strict=True) if not verdict.problem]


def _begin(conn: Connection, name: TableName) -> tuple[SpanningTable, CutLine, LakeShape]:
    """One point in time for everything that is read."""
    conn.execute("set transaction isolation level repeatable read, read only")
    conn.execute("select set_config('search_path', 'pg_catalog', true), set_config('statement_timeout', '0', true)")
    table = read_spanning(conn, name)
    registered = table.registered
    shape = LakeShape(columns=registered.columns, key=registered.pk, tier_key=registered.tier_key)
    return table, journal.read_cutline(conn, registered.id), shape


def _read_lake(
    conn: Connection,
    table: SpanningTable,
    cut: CutLine,
    shape: LakeShape,
    part: CheckedRange | None = None,
    *,
    report_progress: ProgressReporter = no_progress,
) -> _Lake:
    registered = table.registered
    if cut.s is None:
        return _Lake(files={}, problems=())
    location = lake_catalog().read_metadata_location(conn, registered.lake)
    if location is None:
        return _Lake(files={}, problems=("the lake table is not in its catalog any more",))
    lake = read_lake_table(location)
    if not lake.has_snapshot(cut.s):
        return _Lake(files={}, problems=(f"the published snapshot {cut.s} is not in the lake any more",))
    files = lake.files(cut.s)
    if any(file.is_equality_delete for file in files.deletes):
        raise LakeLayoutUnsupported(
            f"The lake table of {registered.name} has equality deletes, which verify cannot read yet."
        )
    if odd := next((file.path for file in files.deletes if not file.path.endswith(".parquet")), None):
        raise LakeLayoutUnsupported(
            f"The lake table of {registered.name} has a deletion vector, which verify cannot read yet: {odd}."
        )
    tier_key_id = next(column.field_id for column in registered.columns if column.name == registered.tier_key)
    data = tuple(file for file in files.data if part is None or _may_hold(file, tier_key_id, part))
    deletes = files.deletes if part is None else tuple(delete for delete in files.deletes if may_apply(delete, data))
    problems = [why for file in (*data, *deletes) if (why := why_not_intact(file.path, file.size_bytes))]
    if problems:
        return _Lake(files={}, problems=tuple(problems))
    total = sum(file.size_bytes for file in data)
    return _read_files(data, deletes, shape, Meter(report_progress, f"reading {registered.name}", total, "bytes"))


def _check_manifests(work: _VerifyRun) -> tuple[EntryProblem, ...]:
    """What the published snapshot's manifests say of files that the files do not bear out: by it readers skip files."""
    registered = work.table.registered
    location = lake_catalog().read_metadata_location(work.conn, registered.lake)
    return () if location is None else check_manifests(str(registered.name), location, work.cut.s).report.problems


def _may_hold(file: SnapshotFile, field_id: int, part: CheckedRange) -> bool:
    """Whether a file's bounds leave room for a key of the range."""
    lower, upper = file.lower.get(field_id), file.upper.get(field_id)
    if lower is None or upper is None:
        return True
    return (
        int.from_bytes(lower, "little", signed=True) < part.hi
        and int.from_bytes(upper, "little", signed=True) >= part.lo
    )


def _check_counted(work: _VerifyRun, part: CheckedRange, meter: Meter) -> RangeVerdict:
    verdict = _check_range(work, part)
    meter.add(1)
    return verdict


def _read_files(
    data: tuple[SnapshotFile, ...], deletes: tuple[SnapshotFile, ...], shape: LakeShape, meter: Meter
) -> _Lake:
    delete_cache, read, problems = PositionDeleteCache(), {}, []
    for file in data:
        applied = [delete.path for delete in deletes if may_apply(delete, (file,))]
        try:
            read[file.path] = read_file_rows(file.path, shape, applied, delete_cache)
        except (OSError, ValueError, IndexError) as problem:
            problems.append(f"file {file.path} cannot be read: {str(problem).splitlines()[0]}")
            continue
        meter.add(file.size_bytes)
        if read[file.path].written.rows != file.record_count:
            problems.append(
                f"file {file.path} has {read[file.path].written.rows} rows, and its manifest says {file.record_count}"
            )
    return _Lake(files=read, problems=tuple(problems))


def _check_written(work: _VerifyRun) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Each partition's files against the sum taken when it was tiered; what differs, and what cannot be compared any
    more."""
    by_task: dict[tuple[str, int], list[FileRows]] = defaultdict(list)
    for path, file in work.lake.files.items():
        op_id, number = _writer_of(path)
        by_task[op_id, number // _TASKS_PER_PARTITION].append(file)
    problems: list[str] = []
    notes: list[str] = []
    where = {"table_id": work.table.registered.id}
    # Tiering and folding only add files; whatever else was published may have expired or rewritten some.
    ((may_leave,),) = work.conn.execute(_QUERIES["files_leave"], where).fetchall()
    for op_id, sums in work.conn.execute(_QUERIES["sums"], where):
        for place, noted in enumerate(sums):
            files = by_task[op_id, place]
            if len(files) != noted["files"]:
                sentence = (
                    f"{noted['partition']}: {len(files)} of the {noted['files']} files it was tiered into are in "
                    "the published snapshot"
                )
                (notes if may_leave else problems).append(sentence)
                continue
            if noted.get("hash", HASH_VERSION) != HASH_VERSION:
                notes.append(
                    f"{noted['partition']}: its sum was noted with another hash; it is compared with what "
                    "readers see alone"
                )
                continue
            held = sum((file.written for file in files), RowSum())
            if held != RowSum(rows=noted["rows"], total=int(noted["total"])):
                problems.append(
                    f"{noted['partition']}: its files hold {held.rows} rows with checksum {held.total:016x}, "
                    f"and {noted['rows']} rows"
                    f" with {int(noted['total']):016x} were written by operation {op_id}"
                )
    return tuple(problems), tuple(notes)


def _writer_of(path: str) -> tuple[str, int]:
    """The op and the task that wrote a file, from its name; others' files belong to none."""
    stem = path.rsplit("/", 1)[-1]
    op_id, task = stem[:36], stem[37:].split("-")[0]
    return (op_id, int(task)) if task.isdigit() else (stem, 0)


def read_ranges(conn: Connection, table: SpanningTable, cut: CutLine) -> tuple[CheckedRange, ...]:
    """Every range below the cut-line, from the lowest up."""
    registered = table.registered
    rows = conn.execute(_QUERIES["ranges"], {"table_id": registered.id, "t": cut.t})
    partitions = [
        CheckedRange(
            name=str(TableName(schema, name)),
            lo=lo,
            hi=hi,
            in_heap=is_whole,
            proves_deletes=is_whole,
            is_doubted=is_doubted,
        )
        for schema, name, lo, hi, is_whole, is_doubted in rows
    ]
    return plan_ranges(partitions, cut.t, registered.mode)


def _check_range(work: _VerifyRun, part: CheckedRange) -> RangeVerdict:
    objects = work.table.seam.objects
    yardstick = objects.heap if part.in_heap else objects.seam
    shown = _read_rows(work, yardstick, _within(work, part))
    held = _held(work, part)
    if len(np.unique(held.ids)) != len(held.ids):
        twice = _twice(held.ids)
        keys = _render_keys(work, yardstick, part, twice)
        return _verdict(
            work, part, held.sum, "a key is held twice by the lake and the delta", keys, drift_rows=len(twice)
        )
    if shown.sum != held.sum:
        differing = _differing(shown, held)
        problem = (
            f"the lake and the delta hold {held.sum.rows} rows with checksum {held.sum.total:016x}, the"
            f" {'heap' if part.in_heap else 'seam'} shows {shown.sum.rows} with {shown.sum.total:016x}"
        )
        return _verdict(
            work, part, held.sum, problem, _render_keys(work, yardstick, part, differing), drift_rows=len(differing)
        )
    if not part.in_heap and len(unseen := _read_unseen(work, part, held)):
        problem = f"the heap has {len(unseen)} rows that readers do not see, or see otherwise"
        keys = _render_keys(work, objects.heap, part, unseen)
        return _verdict(work, replace(part, in_heap=True), held.sum, problem, keys, drift_rows=len(unseen))
    if part.is_doubted and not part.in_heap and len(lacking := _read_lacking(work, part, held)):
        problem = f"readers see {len(lacking)} rows that the heap lacks, and nothing proves that they were deleted"
        keys = _render_keys(work, objects.seam, part, lacking)
        return _verdict(work, replace(part, in_heap=True), held.sum, problem, keys, drift_rows=len(lacking))
    return _verdict(work, part, held.sum)


def _read_lacking(work: _VerifyRun, part: CheckedRange, held: _Rows) -> U64:
    """The keys that are held and that the heap does not have."""
    found = _read_rows(work, work.table.seam.objects.heap, _within(work, part))
    return held.ids[~np.isin(held.ids, found.ids)]


def _read_unseen(work: _VerifyRun, part: CheckedRange, held: _Rows) -> U64:
    """The keys of rows that the heap has of a range without holding it whole, in the spill or in a partition, and that
    are not held so."""
    # Rows of a partition made below the retention line are in the heap alone: they stay expired.
    line = part.lo if work.cut.r is None else max(part.lo, work.cut.r)
    if line >= part.hi:
        return np.zeros(0, dtype=np.uint64)
    found = _read_rows(work, work.table.seam.objects.heap, _within(work, replace(part, lo=line)))
    return found.ids[~np.isin(found.rows, held.rows)]


def _check_spill_above_cutline(work: _VerifyRun) -> tuple[RangeVerdict, ...]:
    """A verdict on the spill's rows at or above T, when some have no correction of the same image."""
    uncaptured = count_uncaptured(work.conn, work.table.seam, work.cut.t)
    if not uncaptured:
        return ()
    part = CheckedRange(name=SPILL_ABOVE_CUTLINE, lo=work.cut.t, hi=AXIS_MAX, in_heap=True)
    problem = f"{uncaptured} rows were not captured, and would be hidden once the cut-line has passed them"
    return (_verdict(work, part, RowSum(), problem, drift_rows=uncaptured),)


def _verdict(
    work: _VerifyRun,
    part: CheckedRange,
    held: RowSum,
    problem: str | None = None,
    keys: tuple[str, ...] = (),
    *,
    drift_rows: int = 0,
) -> RangeVerdict:
    key_type = work.table.registered.key_type
    return RangeVerdict(
        range=part.name,
        lower=render_axis(key_type, part.lo),
        upper=render_axis(key_type, part.hi),
        yardstick="heap" if part.in_heap else "seam",
        rows=held.rows,
        checksum=f"{held.total:016x}",
        problem=problem,
        keys=keys,
        drift_rows=drift_rows,
    )


def _held(work: _VerifyRun, part: CheckedRange) -> _Rows:
    """The rows of the files, without those the delta corrects, and the corrections."""
    pending = sql.SQL("x._folded is null and {}").format(_within(work, part))
    delta = work.table.seam.objects.delta
    corrected = _read_rows(work, delta, pending)
    upserts = _read_rows(work, delta, sql.SQL("x._op = 0 and {}").format(pending))
    rows, ids = [upserts.rows], [upserts.ids]
    for file in work.lake.files.values():
        live = (file.tier_keys >= part.lo) & (file.tier_keys < part.hi) & ~np.isin(file.ids, corrected.ids)
        rows.append(file.rows[live])
        ids.append(file.ids[live])
    return _Rows(rows=np.concatenate(rows), ids=np.concatenate(ids))


def _within(work: _VerifyRun, part: CheckedRange) -> sql.Composed:
    return key_between(work.table.seam, part.lo, part.hi, "x")


def _read_rows(work: _VerifyRun, relation: TableName, condition: sql.Composable) -> _Rows:
    query = plan_hash_query(relation, work.shape.columns, work.shape.key_columns, condition)
    pieces = [np.zeros((0, 2), dtype=np.int64)]
    with work.conn.cursor(name="verify", binary=True) as cursor:
        cursor.itersize = _BATCH_ROWS
        cursor.execute(query)
        while batch := cursor.fetchmany(_BATCH_ROWS):
            pieces.append(np.array(batch, dtype=np.int64))
    hashes = np.concatenate(pieces)
    return _Rows(rows=hashes[:, 0].copy().view(np.uint64), ids=hashes[:, 1].copy().view(np.uint64))


def _differing(shown: _Rows, held: _Rows) -> U64:
    """The keys that one side lacks, or whose rows are not the same."""
    ours, theirs = dict(zip(shown.ids, shown.rows, strict=True)), dict(zip(held.ids, held.rows, strict=True))
    return np.array([key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)], dtype=np.uint64)


def _twice(ids: U64) -> U64:
    found, counts = np.unique(ids, return_counts=True)
    return np.asarray(found[counts > 1], dtype=np.uint64)


def _render_keys(work: _VerifyRun, relation: TableName, part: CheckedRange, ids: U64) -> tuple[str, ...]:
    """Up to ten of the keys, from Postgres where it shows them, else from the files."""
    query = plan_key_query(relation, work.shape.key_columns, _within(work, part), ids.view(np.int64).tolist(), MAX_KEYS)
    shown = work.conn.execute(query).fetchall()
    found = ["(" + ", ".join(row[1:]) + ")" for row in shown]
    hidden = np.setdiff1d(ids, np.array([row[0] for row in shown], dtype=np.int64).view(np.uint64))
    for path, file in work.lake.files.items():
        if len(found) < MAX_KEYS and np.isin(file.ids, hidden).any():
            found += read_key_texts(path, work.shape, hidden)
    return tuple(found)[:MAX_KEYS]
