"""S3-compatible stores: where they are and which keys open them, said once for pyarrow, PyIceberg, Iceberg's Java side
and DuckDB.

One store per process. Keys come from the variables the AWS tools use (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN) or from a file as those tools write it; never from an argument or our own settings file, and they are
part of no `repr`.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from thermocline.errors import BadSetting
from thermocline.runtime.settings import PREFIX, Settings

SCHEMES = ("s3", "s3a", "s3n")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """How a store is reached. Without an endpoint it is AWS; without keys pyarrow and Java look where the AWS tools
    look."""

    endpoint: str | None = None
    region: str = "us-east-1"
    path_style: bool = False
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str | None:
        """The endpoint without its scheme."""
        return urlsplit(self.endpoint).netloc if self.endpoint else None

    @property
    def is_encrypted(self) -> bool:
        return self.endpoint is None or self.endpoint.startswith("https:")

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find the same store by `store_of_environment`."""
        said = {
            f"{PREFIX}S3_ENDPOINT": self.endpoint,
            f"{PREFIX}S3_REGION": self.region,
            f"{PREFIX}S3_PATH_STYLE": "true" if self.path_style else "false",
            **dict(zip(_KEYS, (self.access_key, self.secret_key, self.session_token), strict=True)),
        }
        return {name: value for name, value in said.items() if value is not None}

    def iceberg_properties(self) -> dict[str, str]:
        """The store in Iceberg's own words, as Java's S3FileIO and PyIceberg read them."""
        said = {
            "s3.endpoint": self.endpoint,
            "s3.region": self.region,
            "client.region": self.region,
            "s3.path-style-access": "true" if self.path_style else "false",
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.session-token": self.session_token,
        }
        return {name: value for name, value in said.items() if value is not None}


_in_use: ObjectStore | None = None


def use_store(store: ObjectStore) -> None:
    """From now on this process reaches object stores so."""
    global _in_use
    _in_use = store


def current_store() -> ObjectStore:
    """The store of this process: what `use_store` said, else what the environment says."""
    return _in_use if _in_use is not None else store_of_environment(os.environ)


def store_of(settings: Settings, environ: Mapping[str, str]) -> ObjectStore:
    """The store that the settings name, with the keys of the environment or of the file."""
    keys = _file_keys(settings.s3_credentials_file) if settings.s3_credentials_file else _environment_keys(environ)
    return ObjectStore(
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        path_style=settings.s3_path_style,
        access_key=keys[0],
        secret_key=keys[1],
        session_token=keys[2],
    )


def store_of_environment(environ: Mapping[str, str]) -> ObjectStore:
    """The store that another process handed down."""
    keys = _environment_keys(environ)
    return ObjectStore(
        endpoint=environ.get(f"{PREFIX}S3_ENDPOINT"),
        region=environ.get(f"{PREFIX}S3_REGION", "us-east-1"),
        path_style=environ.get(f"{PREFIX}S3_PATH_STYLE") == "true",
        access_key=keys[0],
        secret_key=keys[1],
        session_token=keys[2],
    )


def is_object_location(location: str) -> bool:
    """Whether the location is in an object store."""
    return location.partition("://")[0] in SCHEMES and "://" in location


def path_in_store(location: str) -> str:
    """`bucket/key` of an object location, taken literally."""
    return location.partition("://")[2].rstrip("/")


def _environment_keys(environ: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    access, secret, token = (environ.get(name) or None for name in _KEYS)
    return access, secret, token


def _file_keys(path: Path) -> tuple[str | None, str | None, str | None]:
    """The keys of section [default] in a file as the AWS tools write it. What is wrong with it is said without its
    content."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        section = parser["default"]
        return section["aws_access_key_id"], section["aws_secret_access_key"], section.get("aws_session_token")
    except OSError as problem:
        raise BadSetting(f"The file {path} of s3_credentials_file cannot be read: {problem.strerror}.") from None
    except (configparser.Error, KeyError, UnicodeDecodeError):
        raise BadSetting(
            f"The file {path} of s3_credentials_file has no aws_access_key_id and aws_secret_access_key under "
            "[default]."
        ) from None
