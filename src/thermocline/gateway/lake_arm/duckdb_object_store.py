"""DuckDB's way to an object store: the extension out of its wheel, and the store's keys as a secret that lives in
memory alone."""

from __future__ import annotations

from importlib.resources import as_file, files

import duckdb

from thermocline.runtime.object_store import ObjectStore


def configure_object_store(connection: duckdb.DuckDBPyConnection, store: ObjectStore) -> None:
    """From now on every cursor of this database reads `s3://` locations; nothing is fetched from anywhere."""
    extension = next(files("duckdb_extension_httpfs").joinpath("extensions").iterdir()) / "httpfs.duckdb_extension"
    with as_file(extension) as path:
        connection.load_extension(str(path))
    # Lake files never change once written, so what was learned about one stays true.
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
