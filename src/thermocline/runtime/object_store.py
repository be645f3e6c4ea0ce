"""The S3-compatible object store of this process: its endpoint and its credentials, for every client library.

One store per process. Credentials come from the AWS variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN) or from an AWS credentials file; never from an argument or our own settings file. No `repr` contains
them.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from thermocline.errors import BadSetting
from thermocline.runtime import PREFIX

SCHEMES = ("s3", "s3a", "s3n")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """How to reach a store. Without an endpoint it is AWS; without keys pyarrow and Java search for credentials as the
    AWS tools do."""

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
        """The environment variables from which `store_from_environment` makes the same store in another process."""
        variables = {
            f"{PREFIX}S3_ENDPOINT": self.endpoint,
            f"{PREFIX}S3_REGION": self.region,
            f"{PREFIX}S3_PATH_STYLE": "true" if self.path_style else "false",
            **dict(zip(_KEYS, (self.access_key, self.secret_key, self.session_token), strict=True)),
        }
        return {name: value for name, value in variables.items() if value is not None}


_in_use: ObjectStore | None = None


def use_store(store: ObjectStore) -> None:
    """Set the object store of this process."""
    global _in_use
    _in_use = store


def current_store() -> ObjectStore:
    """The store of this process: set by `use_store`, else read from the environment."""
    return _in_use if _in_use is not None else store_from_environment(os.environ)


class StoreSettings(Protocol):
    """The settings that name a store."""

    @property
    def s3_endpoint(self) -> str | None: ...
    @property
    def s3_region(self) -> str: ...
    @property
    def s3_path_style(self) -> bool: ...
    @property
    def s3_credentials_file(self) -> Path | None: ...


def store_from_settings(settings: StoreSettings, environ: Mapping[str, str]) -> ObjectStore:
    """The store that the settings name, with credentials from the environment or the credentials file."""
    keys = _file_keys(settings.s3_credentials_file) if settings.s3_credentials_file else _environment_keys(environ)
    return ObjectStore(
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        path_style=settings.s3_path_style,
        access_key=keys[0],
        secret_key=keys[1],
        session_token=keys[2],
    )


def store_from_environment(environ: Mapping[str, str]) -> ObjectStore:
    """The store that the parent process passed in the environment."""
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
    """`bucket/key` of an object location; nothing is decoded."""
    return location.partition("://")[2].rstrip("/")


def _environment_keys(environ: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    access, secret, token = (environ.get(name) or None for name in _KEYS)
    return access, secret, token


def _file_keys(path: Path) -> tuple[str | None, str | None, str | None]:
    """The keys of section [default] in an AWS credentials file. Error messages never contain the file's content."""
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
