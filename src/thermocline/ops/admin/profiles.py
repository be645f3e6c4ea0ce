"""Storage profiles as commands see them: listed, added and removed."""

from __future__ import annotations

from thermocline.catalog.migrate import apply_migrations, check_catalog_is_ours
from thermocline.catalog.profiles import StorageProfile, delete_profile, insert_profile, read_profiles
from thermocline.errors import UsageError
from thermocline.runtime.locations import local_path, location_of
from thermocline.runtime.pg import check_version, connect


def list_profiles(dsn: str) -> tuple[StorageProfile, ...]:
    """Every profile; none where there is no catalog yet."""
    with connect(dsn, autocommit=True, application_name="thermocline profile") as conn:
        if conn.execute("select to_regclass('thermocline.storage_profiles') is null").fetchone() == (True,):
            return ()
        return read_profiles(conn)


def add_profile(dsn: str, name: str, warehouse: str, *, is_default: bool = False) -> StorageProfile:
    """Add a profile. A bare path is a directory of this machine, taken as it is from here."""
    location = location_of(warehouse)
    if not name.strip() or not warehouse.strip():
        raise UsageError(
            "A storage profile has a name and a warehouse.", hint="thermocline profile add NAME --warehouse LOCATION"
        )
    if local_path(location) is None and not location.startswith(("s3://", "s3a://")):
        raise UsageError(f"{warehouse} is no place for a lake.", hint="Give a directory or an s3:// location.")
    made = StorageProfile(name=name, warehouse=location, is_default=is_default)
    with connect(dsn, autocommit=True, application_name="thermocline profile") as conn:
        check_version(conn)
        check_catalog_is_ours(conn)
        apply_migrations(conn)
        insert_profile(conn, made)
    return made


def remove_profile(dsn: str, name: str) -> StorageProfile:
    """Remove a profile that no lake is in. Its warehouse and every file there stay."""
    with connect(dsn, autocommit=True, application_name="thermocline profile") as conn:
        check_version(conn)
        check_catalog_is_ours(conn)
        apply_migrations(conn)
        return delete_profile(conn, name)
