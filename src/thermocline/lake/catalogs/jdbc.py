"""Iceberg's JDBC catalog, in a schema of the same Postgres database.

Iceberg writes the catalog's name into every row of `iceberg_tables`. Spark and PyIceberg find each other's tables
because both use the name `thermocline`. Rows are changed in the caller's transaction, so a registration and its lake
table commit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from psycopg import sql
from psycopg.rows import class_row, dict_row

from thermocline.core.names import LAKE_CATALOG, TableName
from thermocline.errors import DsnWithoutTcp
from thermocline.errors.maintenance import SafetyInputsUnreadable
from thermocline.lake.catalogs.base import CatalogTable
from thermocline.lake.catalogs.jdbc_tls import jdbc_tls, renew_client_certificates
from thermocline.lake.catalogs.storage_properties import warehouse_properties
from thermocline.runtime.locations import location_of
from thermocline.runtime.pg import Connection, Endpoint, load_queries

_SCHEMA = "thermocline_iceberg"
_RELATION = f"{_SCHEMA}.iceberg_tables"
_QUERIES = load_queries("thermocline.lake.catalogs", "queries/jdbc.sql")


class JdbcCatalog:
    """The catalog whose tables are rows of `thermocline_iceberg.iceberg_tables`."""

    def spark_properties(self, endpoint: Endpoint, warehouse: str) -> dict[str, str]:
        """Spark redacts the value of the key that holds the password."""
        properties = {
            "type": "jdbc",
            "uri": jdbc_url(endpoint, schema=_SCHEMA),
            "jdbc.user": endpoint.user,
            "jdbc.schema-version": "V1",
            "warehouse": location_of(warehouse),
            # A server that restarts ends connections with these SQLSTATEs. The catalog reconnects; its compare-and-swap
            # is safe to repeat.
            "retryable_status_codes": "57P01,57P02,57P03",
            **{f"jdbc.{name}": value for name, value in jdbc_tls(endpoint.tls).items()},
            **warehouse_properties(warehouse),
        }
        return {**properties, "jdbc.password": endpoint.password} if endpoint.password else properties

    def renew_credentials(self) -> None:
        renew_client_certificates()

    def insert_table(self, conn: Connection, name: TableName, metadata_location: str) -> None:
        values = {**_key(name), "location": metadata_location}
        conn.execute(_QUERIES["insert_namespace"], values)
        conn.execute(_QUERIES["insert_table"], values)

    def delete_table(self, conn: Connection, name: TableName) -> None:
        conn.execute(_QUERIES["delete_table"], _key(name))

    def read_metadata_location(self, conn: Connection, name: TableName) -> str | None:
        row = conn.execute(_QUERIES["metadata_location"], _key(name)).fetchone()
        return row[0] if row else None

    def swap_metadata_location(self, conn: Connection, name: TableName, *, before: str, after: str) -> bool:
        return conn.execute(_QUERIES["swap"], {**_key(name), "before": before, "after": after}).rowcount == 1

    def read_all_metadata_locations(self, conn: Connection) -> dict[CatalogTable, str]:
        """The tables of every JDBC catalog in this database, whatever its schema."""
        with conn.cursor(row_factory=class_row(_CatalogRelation)) as cursor:
            relations = cursor.execute(_QUERIES["catalogs"]).fetchall()
        found: dict[CatalogTable, str] = {}
        for one in relations:
            if not one.is_readable:
                raise SafetyInputsUnreadable(
                    f"This role may not read the Iceberg catalog {one.relation}: where its tables have files is not "
                    "known."
                )
            with conn.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(sql.SQL(_QUERIES["all_metadata_locations"]).format(sql.SQL(one.relation)))
                found |= {_catalog_table(one.relation, row): row["metadata_location"] for row in rows}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _CatalogRelation:
    relation: str
    is_readable: bool


def _catalog_table(relation: str, row: Mapping[str, str]) -> CatalogTable:
    return CatalogTable(
        catalog=row["catalog_name"],
        name=TableName(row["table_namespace"], row["table_name"]),
        is_ours=relation == _RELATION and row["catalog_name"] == LAKE_CATALOG,
        store=relation,
    )


def jdbc_url(endpoint: Endpoint, *, schema: str | None = None) -> str:
    """The endpoint as a JDBC URL, without role and password."""
    if endpoint.host.startswith("/"):
        raise DsnWithoutTcp(
            f"Spark reaches Postgres over TCP only, and the DSN names the socket directory {endpoint.host}."
        )
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    options = {"ApplicationName": "thermocline", "connectTimeout": "10", "tcpKeepAlive": "true"}
    if schema:
        options["currentSchema"] = schema
    return f"jdbc:postgresql://{host}:{endpoint.port}/{quote(endpoint.dbname, safe='')}?{urlencode(options)}"


def _key(name: TableName) -> dict[str, object]:
    return {"catalog": LAKE_CATALOG, "namespace": name.schema, "name": name.table}
