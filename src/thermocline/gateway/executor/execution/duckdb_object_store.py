"""Configure DuckDB for an object store: load the extension from its wheel, and keep the store's keys as an in-memory
secret."""

from __future__ import annotations

from importlib.resources import as_file, files

import duckdb

from thermocline.runtime.object_store import ObjectStore


def configure_object_store(connection: duckdb.DuckDBPyConnection, store: ObjectStore) -> None:
    """Let every cursor of this database read `s3://` locations. Nothing is downloaded."""
    extension = next(files("duckdb_extension_httpfs").joinpath("extensions").iterdir()) / "httpfs.duckdb_extension"
    with as_file(extension) as path:
        connection.load_extension(str(path))
    # Lake files are immutable, so their cached metadata stays valid.
    connection.execute("SET GLOBAL enable_http_metadata_cache = true")
    connection.execute("SET GLOBAL http_retries = 4")
    named = {
        "KEY_ID": store.access_key,
        "SECRET": store.secret_key,
        "SESSION_TOKEN": store.session_token,
        "ENDPOINT": store.host,
        "REGION": store.region,
        "URL_STYLE": "path" if store.path_style else "vhost",
        "USE_SSL": store.is_encrypted,
    }
    given = {name: value for name, value in named.items() if value is not None}
    # The names are the constants above; every value is a parameter.
    made = "CREATE OR REPLACE SECRET thermocline_lake (TYPE s3, {})".format(", ".join(f"{name} ?" for name in given))
    connection.execute(made, list(given.values()))
