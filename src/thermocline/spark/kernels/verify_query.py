"""The SQL of `verify`: two hashes of each row of a relation, of the whole row and of its key, equal to those of the
lake's files."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.spark.kernels.select_list import HASH_COLUMN, plan_row_hash, plan_value


def plan_hash_query(
    relation: TableName, columns: Sequence[LakeColumn], key: Sequence[LakeColumn], condition: sql.Composable
) -> sql.Composed:
    """Both hashes of the rows that a condition selects; the relation has the alias `x`."""
    return sql.SQL(
        "select w.{hash}, k.{hash} from {relation} x cross join lateral {whole} w cross join lateral {key} k "
        "where {where}"
    ).format(
        hash=sql.Identifier(HASH_COLUMN),
        relation=sql.Identifier(relation.schema, relation.table),
        whole=_hashed(columns),
        key=_hashed(key),
        where=condition,
    )


def plan_key_query(
    relation: TableName, key: Sequence[LakeColumn], condition: sql.Composable, hashes: Sequence[int], limit: int
) -> sql.Composed:
    """The key's hash, and the key as text, of rows whose key hash is one of these."""
    return sql.SQL(
        "select k.{hash}, {texts} from {relation} x cross join lateral {key} k"
        " where {where} and k.{hash} = any ({hashes}::bigint[]) limit {limit}"
    ).format(
        texts=sql.SQL(", ").join(
            sql.SQL("pg_catalog.concat({})").format(sql.Identifier("x", column.name)) for column in key
        ),
        relation=sql.Identifier(relation.schema, relation.table),
        key=_hashed(key),
        where=condition,
        hash=sql.Identifier(HASH_COLUMN),
        hashes=sql.Literal("{" + ",".join(map(str, hashes)) + "}"),
        limit=sql.Literal(limit),
    )


def _hashed(columns: Sequence[LakeColumn]) -> sql.Composed:
    values = (
        sql.SQL("{} as {}").format(plan_value(column), sql.Identifier(f"c{at}")) for at, column in enumerate(columns)
    )
    return sql.SQL("(select {} from (select {} offset 0) v)").format(plan_row_hash(columns), sql.SQL(", ").join(values))
