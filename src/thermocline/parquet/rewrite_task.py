"""The input and the result of one Spark task of compaction. Plain data, so that it can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kernel = Literal["splice", "merge", "reencode", "sort", "zorder", "hilbert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSource:
    """A delete file that may delete rows of the bin's inputs. A deletion vector is a Puffin blob at `offset`, `length`,
    for one file."""

    path: str
    kind: Literal["position", "equality", "vector"]
    size_bytes: int
    sequence_number: int
    equality_ids: tuple[int, ...] = ()
    referenced_file: str | None = None
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A data file to rewrite, and the delete files that apply to it by partition scope and sequence (indexes into the
    task's `deletes`)."""

    path: str
    size_bytes: int
    record_count: int
    sequence_number: int
    deletes: tuple[int, ...] = ()
    first_row_id: int | None = None
    """The file's first row id; None for files from before the table had row ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One field of a sort order: the column's field id and Iceberg's transform of it."""

    field_id: int
    transform: str = "identity"
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BinTask:
    """One bin of one (spec, partition). `schema_json` is Iceberg's JSON of the table's current schema; outputs carry
    its field ids.

    `partition_values` are constants of identity partition columns that old or foreign files may leave out, by field id,
    as JSON values.
    """

    number: int
    kernel: Kernel
    inputs: tuple[InputFile, ...]
    deletes: tuple[DeleteSource, ...]
    schema_json: str
    directory: str
    """The folder of the outputs."""
    name_prefix: str
    target_bytes: int
    compression: str = "zstd"
    compression_level: int = 1
    sort: tuple[SortField, ...] = ()
    memory_bytes: int = 402_653_184
    partition_values: Mapping[int, object] | None = None
    splice_min_row_group_bytes: int = 0
    """A bin with smaller row groups on average is merged or re-encoded instead of spliced; 0: no limit."""
    keep_lineage: bool = False
    """Whether outputs store each row's id and last sequence number, as format version 3 requires."""
    name_mapping: str | None = None
    """The table's `schema.name-mapping.default`, for files without field ids."""
    scratch: str | None = None
    """A local directory for sorted runs; None: the system's temporary directory."""
    storage: Mapping[str, str] | None = None
    """How to reach the object store of the files; None for the local file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    path: str
    size_bytes: int
    rows: int
    split_offsets: tuple[int, ...]
    nan_counts: Mapping[int, int] | None = None
    """NaN counts of float columns, by field id; None where they were not counted."""
    float_ends: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Bounds of float columns, where rows were encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMap:
    """Where a run of an input's kept rows went, so that a position delete which arrives meanwhile can be moved along
    (see `row_map.py`).

    Only order-preserving kernels have one. Number an input's kept rows 0, 1, 2, …: those from `first_kept` on, `rows`
    of them, lie at `first_row` and after in the output of index `output`. An input that is cut over several outputs has
    several, one after the other; each carries all of the input's `removed`.
    """

    input_path: str
    output: int
    first_row: int
    rows: int
    first_kept: int = 0
    removed: bytes = b""
    """The input's deleted row positions, sorted, as little-endian 64-bit integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinResult:
    number: int
    kernel: Kernel
    """The kernel that ran: a bin that cannot be spliced is merged or re-encoded."""
    outputs: tuple[OutputFile, ...]
    rows_read: int
    rows_written: int
    bytes_read: int
    bytes_written: int
    row_maps: tuple[RowMap, ...] = ()
    note: str = ""
