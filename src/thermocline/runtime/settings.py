"""Every setting, its type, its value and where the value came from.

Four layers, the later wins: built in < file (THERMOCLINE_CONFIG, else DIR/thermocline.toml) < environment
(THERMOCLINE_…) < flag. A key nobody knows, in the file or in the environment, is refused, so that a typing error is not
a silent default; THERMOCLINE_TEST_… alone is left to tests.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from thermocline.core.policy.formats import GROUP
from thermocline.core.policy.resolve import parse_changes
from thermocline.errors import BadSetting, UsageError
from thermocline.errors.maintenance import PolicyKeyUnknown
from thermocline.runtime.environment import PREFIX
from thermocline.runtime.pg import without_password

TEST_PREFIX = "THERMOCLINE_TEST_"
MAINTENANCE_ENGINES = ("spark", "spark-procedures", "external")
NOT_IN_FILE = frozenset({"dir", "config"})


class Settings(BaseSettings):
    """The settings in force. `Settings()` is what is built in; `load_settings` adds the layers."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=True)

    dir: Path = Field(
        default=Path(".thermocline"), description="directory of the stack: state, logs, secrets, embedded Postgres"
    )
    config: Path | None = Field(
        default=None, description="settings file (TOML); none: DIR/thermocline.toml where it exists"
    )
    dsn: str | None = Field(
        default=None, repr=False, description="Postgres to use; none: the embedded one of the stack in DIR"
    )
    warehouse: str | None = Field(default=None, description="directory of the lake's files; none: DIR/warehouse")
    cache: Path | None = Field(
        default=None,
        description="directory of fetched jars and Postgres binaries; none: the system's or the user's cache",
    )
    gateway_listen: str = Field(
        default="127.0.0.1:5439", description="address of the gateway; a stack chooses a free port unless this is given"
    )
    gateway_addresses: str | None = Field(
        default=None,
        description="where Postgres finds the gateways, host:port,host:port,…, tried in order; none: gateway_listen",
    )
    gateway_http_listen: str | None = Field(
        default=None,
        description=(
            "address where the gateway answers /healthz, /readyz and /metrics; none: a stack's own choice, else nowhere"
        ),
    )
    gateway_max_connections: int = Field(
        default=2000, ge=1, description="client connections that the gateway takes at once"
    )
    gateway_memory_limit_bytes: int = Field(
        default=2_000_000_000, ge=100_000_000, description="memory that all running scans of the gateway share"
    )
    gateway_connection_memory_bytes: int = Field(
        default=500_000_000,
        ge=16_000_000,
        description="memory that sorts and row deletes of one gateway connection may hold",
    )
    gateway_spill_bytes: int = Field(
        default=10_000_000_000, ge=0, description="disk that a gateway connection may use beyond its memory; 0: none"
    )
    gateway_statement_timeout_seconds: float = Field(
        default=0, ge=0, description="longest run of a gateway statement; 0: no limit"
    )
    gateway_slow_statement_seconds: float = Field(
        default=5, ge=0, description="statements that took this long are logged; 0: none"
    )
    gateway_drain_seconds: float = Field(
        default=10, ge=0, description="how long running statements may go on when the gateway is stopped"
    )
    gateway_evaluations: int = Field(
        default=8, ge=1, le=1000, description="gateway statements that Postgres evaluates at once; others wait"
    )
    gateway_candidate_limit_bytes: int = Field(
        default=1_000_000_000,
        ge=1,
        description="lake rows that one statement may copy to Postgres to be evaluated there",
    )
    gateway_tls_cert: Path | None = Field(
        default=None, description="certificate of the gateway (PEM), read again on SIGHUP; none: no TLS"
    )
    gateway_tls_key: Path | None = Field(default=None, description="key of the gateway's certificate (PEM)")
    gateway_tls_required: bool = Field(default=False, description="whether the gateway refuses connections without TLS")
    s3_endpoint: str | None = Field(
        default=None, pattern=r"^https?://[^/@\s]+$", description="S3-compatible store, http(s)://host:port; none: AWS"
    )
    s3_region: str = Field(default="us-east-1", min_length=1, description="region of the object store")
    s3_path_style: bool = Field(
        default=False, description="whether the bucket stands in the path of a request, not in its host name"
    )
    s3_credentials_file: Path | None = Field(
        default=None,
        description=(
            "keys of the object store, as the AWS tools write them; none: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
        ),
    )
    fsync: bool = Field(
        default=True,
        description=(
            "whether lake files on local disks are flushed before a commit names them; off: a power cut may tear some"
        ),
    )
    http_listen: str = Field(
        default="127.0.0.1:8439",
        description="address of the HTTP API; a stack chooses a free port unless this is given",
    )
    spark_master: str = Field(
        default="local[*]", min_length=1, description="Spark master: local[*], spark://…, k8s://…, yarn"
    )
    spark_driver_memory: str = Field(
        default="2g", pattern=r"^[1-9]\d*[kmgKMG]$", description="memory of the Spark driver"
    )
    cycle_interval_seconds: float = Field(default=10, gt=0, description="pause between two cycles of the worker")
    premake_partitions: int = Field(
        default=2,
        ge=0,
        le=1000,
        description="partitions kept ready ahead of the newest row, for tables registered without --premake",
    )
    tiering_lag: str = Field(
        default="0",
        description="how far behind the newest row a partition must be to move, for tables without their own",
    )
    reclaim_lag: str | None = Field(
        default=None,
        description=(
            "how long a tiered partition stays in the heap, for tables without their own; none: the tiering lag"
        ),
    )
    fold_min_rows: int = Field(
        default=1000, ge=1, description="corrections that must wait for a worker to fold them at once"
    )
    fold_interval_seconds: float = Field(
        default=60, ge=0, description="how long fewer corrections than that wait for a worker's fold"
    )
    verify_interval_seconds: float = Field(
        default=600,
        ge=0,
        description="time between two ranges that the worker compares in the background; 0 compares one in each cycle",
    )
    lock_timeout_ms: int = Field(
        default=2000,
        ge=1,
        le=600_000,
        description="longest wait for a lock on the user's table; then it is tried again later",
    )
    standby_grace_seconds: float = Field(
        default=300,
        ge=0,
        description=(
            "how long a tiered partition stays for standbys that report no snapshots (hot_standby_feedback off)"
        ),
    )
    staged_grace_seconds: float = Field(
        default=3600,
        ge=0,
        description=(
            "age at which folders of no table are deleted, and metadata files that left the log, which are a day "
            "old at least"
        ),
    )
    target_file_bytes: int = Field(
        default=134_217_728, ge=1_048_576, description="size that data files in the lake aim at"
    )
    copy_memory_bytes: int = Field(
        default=536_870_912,
        ge=33_554_432,
        description="memory that one tiering task may hold; a partition may be of any size",
    )
    maintenance_enabled: bool | None = Field(
        default=None,
        description=(
            "whether tables without a policy of their own are maintained; none: as their preset says (modak: yes)"
        ),
    )
    maintenance_preset: Literal["modak", "seaweedfs", "artemis"] = Field(
        default="modak", description="maintenance defaults of tables without a preset of their own"
    )
    maintenance_engine: str = Field(
        default="spark", description="what runs a pass: spark, spark-procedures or external"
    )
    maintenance_external_command: str | None = Field(
        default=None,
        description=(
            "program of the engine external: a bin as JSON on its standard input, its answer on its standard output"
        ),
    )
    maintenance_interval_seconds: float = Field(
        default=3600, gt=0, description="time between two maintenance passes of a table, jittered"
    )
    lake_stats_interval_seconds: float = Field(
        default=60, gt=0, description="time between two looks at the lake's health"
    )
    rewrite_target_bytes: int | None = Field(
        default=None, ge=1, description="policy default: size that compaction aims at"
    )
    rewrite_min_input_files: int | None = Field(
        default=None, ge=2, description="policy default: least files worth compacting"
    )
    snapshot_retention_hours: int | None = Field(
        default=None, ge=1, le=876_000, description="policy default: age at which snapshots expire"
    )
    snapshot_min_retained: int | None = Field(
        default=None, ge=1, description="policy default: snapshots kept whatever their age"
    )
    maintenance_policy: str = Field(
        default="", description="policy defaults of other keys: key=value, several separated by `;`"
    )
    prometheus_url: str | None = Field(
        default=None,
        description="Prometheus that answers a policy's latency_query; none: the gateway's own latency is looked at",
    )
    connect_timeout_seconds: int = Field(
        default=5, ge=1, le=300, description="longest wait for a connection to Postgres"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="form of log lines on stderr")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe log line shown"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The layers are read by load_settings, which has to know which of them a value came from.
        return (init_settings,)

    @field_validator("dir", "config", "cache", "gateway_tls_cert", "gateway_tls_key", "s3_credentials_file")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    @field_validator("gateway_listen", "http_listen", "gateway_http_listen")
    @classmethod
    def _address(cls, text: str | None) -> str | None:
        if text is not None:
            split_address(text)
        return text

    @field_validator("maintenance_engine")
    @classmethod
    def _engine(cls, name: str) -> str:
        if name not in MAINTENANCE_ENGINES:
            raise ValueError(f"unknown {PREFIX}MAINTENANCE_ENGINE {name!r}; there are {', '.join(MAINTENANCE_ENGINES)}")
        return name

    @field_validator("maintenance_policy")
    @classmethod
    def _policy(cls, text: str) -> str:
        try:
            parse_changes(part for part in text.split(";") if part.strip())
        except UsageError as refusal:
            # A format that was not loaded yet may know the key; whoever uses the policy loads them, and reads it again.
            if isinstance(refusal, PolicyKeyUnknown) and entry_points(group=GROUP):
                return text
            raise ValueError(str(refusal)) from None
        return text

    @field_validator("gateway_addresses")
    @classmethod
    def _addresses(cls, text: str | None) -> str | None:
        for address in text.split(",") if text is not None else ():
            split_address(address.strip())
        return text

    @property
    def gateway_place(self) -> tuple[str, str]:
        """Hosts and ports where Postgres finds the gateways, each as libpq takes a list of them."""
        listed = (self.gateway_addresses or self.gateway_listen).split(",")
        pairs = [split_address(address.strip()) for address in listed]
        return ",".join(host for host, _ in pairs), ",".join(str(port) for _, port in pairs)

    @property
    def warehouse_location(self) -> str:
        """Where the lake's files are: as set, else DIR/warehouse."""
        return self.warehouse if self.warehouse is not None else str(self.dir / "warehouse")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and for each key the layer that gave its value."""

    values: Settings
    origins: Mapping[str, str]

    def with_values(self, origin: str, **changes: Any) -> LoadedSettings:
        """These settings with some values from another place, `stack` say."""
        values = self.values.model_copy(update=changes)
        return LoadedSettings(values=values, origins={**self.origins, **dict.fromkeys(changes, origin)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLine:
    """One setting as it is shown."""

    key: str
    value: str | int | float | None
    origin: str
    meaning: str


def load_settings(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> LoadedSettings:
    """Read all layers; flags that are None were not given."""
    env = _environment_layer(os.environ if environ is None else environ)
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    if unknown := set(given) - set(Settings.model_fields):
        raise BadSetting(f"There is no setting {sorted(unknown)[0]}.")
    file, file_name = _file_layer({**env, **given})
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "built in")
    for layer, origin in ((file, f"file {file_name}"), (env, "environment"), (given, "flag")):
        values.update(layer)
        for key in layer:
            origins[key] = f"{origin} {PREFIX}{key.upper()}" if origin == "environment" else origin
    return LoadedSettings(values=_validated(values, origins), origins=origins)


def render_settings(loaded: LoadedSettings) -> tuple[SettingLine, ...]:
    """Each setting with its value and origin, secrets hidden."""
    lines = []
    for key, field in Settings.model_fields.items():
        value = getattr(loaded.values, key)
        shown = without_password(value) if key == "dsn" and value else value
        lines.append(
            SettingLine(
                key=key,
                value=str(shown) if isinstance(shown, Path) else shown,
                origin=loaded.origins[key],
                meaning=field.description or "",
            )
        )
    return tuple(lines)


def split_address(text: str) -> tuple[str, int]:
    """host:port, as two values."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("an address is written host:port")
    return host.strip("[]"), int(port)


def _environment_layer(environ: Mapping[str, str]) -> dict[str, str]:
    layer = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX):
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in Settings.model_fields or name != PREFIX + key.upper():
            raise BadSetting(f"The environment variable {name} is not a setting{_near(key, prefix=PREFIX)}.")
        if environ[name] != "":
            layer[key] = environ[name]
    return layer


def _file_layer(above: Mapping[str, Any]) -> tuple[dict[str, Any], Path]:
    named = above.get("config")
    path = Path(named) if named else Path(above.get("dir") or Settings.model_fields["dir"].default) / "thermocline.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise BadSetting(f"The settings file {path} does not exist.") from None
        return {}, path
    except OSError as problem:
        raise BadSetting(f"The settings file {path} cannot be read: {problem.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"The settings file {path} is not TOML: {problem}.") from None
    for key in content:
        if key in NOT_IN_FILE:
            raise BadSetting(f"The settings file {path} cannot set {key}: the file is found by it.")
        if key not in Settings.model_fields:
            raise BadSetting(f"The settings file {path} has the key {key}, which is not a setting{_near(key)}.")
    return content, path


def _validated(values: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        settings = Settings(**values)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = str(first["loc"][0])
        shown = "" if key == "dsn" else f" = {values[key]!r}"
        reason = first["msg"].removeprefix("Value error, ")
        raise BadSetting(
            f"The setting {key}{shown} (from {origins[key]}) is refused: {reason[:1].lower()}{reason[1:]}."
        ) from None
    if settings.dsn is not None:
        without_password(settings.dsn)
    return settings


def _near(key: str, prefix: str = "") -> str:
    match = difflib.get_close_matches(key, list(Settings.model_fields), n=1)
    return f" (did you mean {prefix}{match[0].upper() if prefix else match[0]}?)" if match else ""
