"""Makes an Iceberg table that is not registered, in the catalog of the stack in this directory: the work of another
program."""

from __future__ import annotations

import json
import subprocess
import sys

import psycopg.conninfo
import sqlalchemy
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField


def main(name: str) -> None:
    status = json.loads(subprocess.run(["thermocline", "status", "--json"], capture_output=True, check=True).stdout)
    found = psycopg.conninfo.conninfo_to_dict(status["postgres"]["dsn"])
    uri = sqlalchemy.URL.create(
        "postgresql+psycopg",
        username=str(found["user"]),
        host=str(found["host"]),
        port=int(str(found["port"])),
        database=str(found["dbname"]),
        query={"passfile": str(found["passfile"]), "options": "-csearch_path=thermocline_iceberg"},
    )
    catalog = SqlCatalog("thermocline", uri=str(uri), warehouse=f"file://{status['warehouse']}")
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    catalog.create_table(name, Schema(NestedField(1, "id", LongType(), required=True)))


if __name__ == "__main__":
    main(sys.argv[1])
