"""Observe a lake table for compaction: its files, its sort order, and the tasks of its bins."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile, Values
from thermocline.core.maintenance.bins import Bin, CompactionPlan
from thermocline.core.maintenance.clustering import Clustering, OrderTerm, parse_sort_order
from thermocline.core.maintenance.delete_plans import DeletesPlan
from thermocline.core.maintenance.files import LakeSnapshot, is_relative
from thermocline.core.plan.schema_change import iceberg_default
from thermocline.core.policy.policy import Policy
from thermocline.errors import LakeLayoutUnsupported
from thermocline.errors.maintenance import FormatVersionUnsupported, SortOrderUnreadable
from thermocline.lake.commit.compare_and_swap import LakeHead
from thermocline.lake.read.table_files import TableFiles
from thermocline.lake.read.table_metadata import FORMAT_VERSIONS, missing_property, read_lake_table
from thermocline.maintain.context import PassContext
from thermocline.parquet.rewrite_task import BinTask, DeleteSource, InputFile, SortField
from thermocline.parquet.values.lake_schema import read_lake_schema

NO_SORT_ORDER = "sort rewrite requires a table sort order"
NO_SNAPSHOT = "no current snapshot"
_SORTABLE = re.compile(r"identity|year|month|day|hour|bucket\[\d+\]|truncate\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The sort order of a pass; `note` says why it differs from the policy's."""

    clustering: Clustering | None = None
    note: str | None = None


def check_format(head: LakeHead) -> None:
    """Refuse format versions and column types that this build does not rewrite, before any work."""
    version = format_version(head)
    if version not in FORMAT_VERSIONS:
        raise FormatVersionUnsupported(
            f"{head.name} is an Iceberg table of format version {version}; versions 1 to 3 are known.",
            hint="Nothing was begun. A newer Thermocline may know the version.",
        )
    read_lake_schema(json.dumps(_schema(head)))


def format_version(head: LakeHead) -> int:
    return int(head.metadata.get("format-version", 1))


def _check_paths(seen: LakeSnapshot) -> None:
    """Refuse a table whose metadata names files by relative paths: it can be read here, but Iceberg's library cannot
    open them.

    And one that holds a file twice, whose rows count twice: Iceberg takes files away by their path, both at once.
    """
    files: tuple[LiveDataFile | LiveDeleteFile, ...] = (*seen.data, *seen.deletes)
    odd = next((path for file in files for path in (file.manifest, file.path) if is_relative(path)), None)
    if odd is not None:
        raise LakeLayoutUnsupported(f"The table names {odd} by a relative path, so nothing of it can be rewritten.")
    if len({file.path for file in seen.data}) < len(seen.data):
        [(twice, _)] = Counter(file.path for file in seen.data).most_common(1)
        raise LakeLayoutUnsupported(f"The table holds {twice} twice, so nothing of it can be rewritten.")


def read_seen(files: TableFiles, head: LakeHead) -> LakeSnapshot:
    """The live files of the head; the table has a snapshot."""
    assert head.snapshot_id is not None
    seen = files.read(read_lake_table(head.metadata_location).metadata, head.snapshot_id)
    _check_paths(seen)
    return seen


def read_order(head: LakeHead, policy: Policy) -> Order:
    """The sort order of this table under the policy's strategy."""
    columns = _columns(head)
    strategy = policy.rewrite_strategy
    if strategy == "binpack":
        return Order()
    if strategy in ("zorder", "hilbert"):
        return Order(clustering=_space_filling(strategy, policy, head, columns))
    own = _own_terms(head, columns)
    terms = parse_sort_order(policy.sort_order, columns) if policy.sort_order else own
    if not terms:
        if strategy == "auto":
            return Order(note="the table has no sort order, so its files are packed as they are")
        raise SortOrderUnreadable(
            NO_SORT_ORDER, hint="Give the table a sort order, or the policy `sort_order`, or use binpack or auto."
        )
    if odd := next((term for term in terms if not _SORTABLE.fullmatch(term.transform)), None):
        return Order(note=f"rows cannot be sorted by {odd.transform}({odd.column}), so files are packed as they are")
    order_id = int(head.metadata.get("default-sort-order-id", 0)) if terms == own else 0
    return Order(clustering=Clustering(kind="sort", terms=terms, order_id=order_id))


def _space_filling(kind: str, policy: Policy, head: LakeHead, columns: Mapping[str, int]) -> Clustering:
    names = policy.zorder_columns or tuple(term.column for term in _own_terms(head, columns))
    if not names:
        raise SortOrderUnreadable(f"{kind} rewrite requires zorder_columns or a table sort order")
    if unknown := next((name for name in names if name not in columns), None):
        raise SortOrderUnreadable(f"zorder_columns names {unknown}, which is no column of the table.")
    terms = tuple(OrderTerm(column=name, field_id=columns[name]) for name in names)
    return Clustering(kind="hilbert" if kind == "hilbert" else "zorder", terms=terms)


def _schema(head: LakeHead) -> Mapping[str, Any]:
    """The current schema; the first format version may keep it under another name."""
    if "schemas" not in head.metadata:
        return dict(head.metadata["schema"])
    return dict(
        next(found for found in head.metadata["schemas"] if found["schema-id"] == head.metadata["current-schema-id"])
    )


def _schema_with_missing(head: LakeHead) -> dict[str, Any]:
    """The schema with our defaults for missing columns as Iceberg's `initial-default`, so that a rewrite applies
    them."""
    schema = _schema(head)
    missing = {field["id"]: head.properties.get(missing_property(field["id"])) for field in schema["fields"]}
    fields = [
        {**field, "initial-default": iceberg_default(text, str(field["type"]))}
        if (text := missing[field["id"]]) is not None
        else field
        for field in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _columns(head: LakeHead) -> dict[str, int]:
    return {column["name"]: column["id"] for column in _schema(head)["fields"]}


def _own_terms(head: LakeHead, columns: Mapping[str, int]) -> tuple[OrderTerm, ...]:
    """The table's own sort order."""
    wanted = head.metadata.get("default-sort-order-id", 0)
    found = next(
        (order for order in head.metadata.get("sort-orders", ()) if order["order-id"] == wanted), {"fields": ()}
    )
    names = {field_id: name for name, field_id in columns.items()}
    return tuple(
        OrderTerm(
            column=names.get(term["source-id"], f"field {term['source-id']}"),
            field_id=term["source-id"],
            transform=term["transform"],
            descending=term["direction"] == "desc",
            nulls_first=term["null-order"] == "nulls-first",
        )
        for term in found["fields"]
    )


def plan_tasks(context: PassContext, head: LakeHead, plan: CompactionPlan) -> list[BinTask]:
    """The bins as tasks that can be sent to executors."""
    schema, properties = json.dumps(_schema_with_missing(head)), head.properties
    root = (properties.get("write.data.path") or f"{head.location.rstrip('/')}/data").rstrip("/")
    return [
        BinTask(
            number=bin_plan.number,
            kernel=bin_plan.kernel,
            inputs=_inputs(bin_plan.files, bin_plan.deletes),
            deletes=tuple(delete_source(delete) for delete in _deletes_of(bin_plan.files, bin_plan.deletes)),
            schema_json=schema,
            directory=f"{root}{_folder(plan.seen, bin_plan)}",
            name_prefix=_name_prefix(context, plan, bin_plan),
            target_bytes=bin_plan.target_bytes,
            compression=properties.get("write.parquet.compression-codec", "zstd"),
            compression_level=context.policy.compression_level,
            sort=_sort_fields(plan.clustering),
            partition_values=_constants(head, bin_plan.group),
            splice_min_row_group_bytes=context.policy.splice_min_row_group_bytes,
            keep_lineage=plan.seen.format_version >= 3,
            name_mapping=properties.get("schema.name-mapping.default"),
        )
        for bin_plan in plan.bins
    ]


def _name_prefix(context: PassContext, plan: CompactionPlan, bin_plan: Bin) -> str:
    return (
        f"{context.pass_id}-{bin_plan.number}"
        if plan.clustering is None
        else plan.clustering.output_prefix(context.pass_id, bin_plan.number)
    )


def plan_delete_tasks(context: PassContext, head: LakeHead, plan: DeletesPlan) -> list[BinTask]:
    """Tasks that rewrite delete files. Of the data files they name, only key columns are read."""
    schema = json.dumps(_schema_with_missing(head))
    return [
        BinTask(
            number=bin_plan.number,
            kernel="reencode",
            inputs=_inputs(bin_plan.data, bin_plan.applies),
            deletes=tuple(delete_source(delete) for delete in _deletes_of(bin_plan.data, bin_plan.applies)),
            schema_json=schema,
            directory=head.location,
            name_prefix=f"{context.pass_id}-d{bin_plan.number}",
            target_bytes=context.policy.delete_target_bytes,
            compression_level=context.policy.compression_level,
            partition_values=_constants(head, bin_plan.group),
            name_mapping=head.properties.get("schema.name-mapping.default"),
        )
        for bin_plan in plan.bins
    ]


def _deletes_of(
    files: Sequence[LiveDataFile], applies: Mapping[str, tuple[LiveDeleteFile, ...]]
) -> list[LiveDeleteFile]:
    """Each delete of the files, without repetition."""
    return list({delete.key: delete for file in files for delete in applies.get(file.path, ())}.values())


def _inputs(files: Sequence[LiveDataFile], applies: Mapping[str, tuple[LiveDeleteFile, ...]]) -> tuple[InputFile, ...]:
    places = {delete.key: at for at, delete in enumerate(_deletes_of(files, applies))}
    return tuple(
        InputFile(
            path=file.path,
            size_bytes=file.size_bytes,
            record_count=file.record_count,
            sequence_number=file.sequence_number,
            deletes=tuple(places[delete.key] for delete in applies.get(file.path, ())),
            first_row_id=file.first_row_id,
        )
        for file in files
    )


def delete_source(delete: LiveDeleteFile) -> DeleteSource:
    return DeleteSource(
        path=delete.path,
        kind=delete.kind,
        size_bytes=delete.size_bytes,
        sequence_number=delete.sequence_number,
        equality_ids=delete.equality_ids,
        referenced_file=delete.referenced_file,
        offset=delete.offset,
        length=delete.length,
    )


def _folder(seen: LakeSnapshot, bin_plan: Bin) -> str:
    """The partition as a folder name, without characters that have a meaning in URIs."""
    texts = seen.partition_texts.get(bin_plan.group, {})
    return "".join("/" + re.sub(r"[^\w.=+-]", "_", f"{name}={text}") for name, text in texts.items())


def _sort_fields(clustering: Clustering | None) -> tuple[SortField, ...]:
    terms = clustering.terms if clustering is not None else ()
    return tuple(
        SortField(
            field_id=term.field_id, transform=term.transform, descending=term.descending, nulls_first=term.nulls_first
        )
        for term in terms
    )


def _constants(head: LakeHead, group: tuple[int, Values]) -> dict[int, object]:
    """The values of identity partition columns, which files of other writers may omit."""
    spec = next(
        (found for found in head.metadata.get("partition-specs", ()) if found["spec-id"] == group[0]), {"fields": ()}
    )
    return {
        part["source-id"]: value
        for part, value in zip(spec["fields"], group[1], strict=False)
        if part["transform"] == "identity"
    }
