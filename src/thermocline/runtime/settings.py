"""The declaration of every setting: name, type, bounds, default and meaning.

A new setting is one field here. The layers (`settings_layers.py`), `thermocline settings`, the help of options and
docs/settings.md read it from this class.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from thermocline.core.messages.nearest import render_nearest
from thermocline.core.policy.formats import GROUP
from thermocline.core.policy.policy_layers import parse_changes
from thermocline.errors import UsageError
from thermocline.errors.maintenance import PolicyKeyUnknown
from thermocline.runtime import PREFIX

EVERY_INTERFACE = ("0.0.0.0", "::", "*")
MAINTENANCE_ENGINES = ("spark", "spark-procedures", "external")


class Settings(BaseModel):
    """The settings in force. `Settings()` has the built-in values; `load_settings` adds the layers."""

    # Help texts need the declarations alone; building the validator takes 10 ms, so the first use does it.
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    dir: Path = Field(
        default=Path(".thermocline"), description="directory of the stack: state, logs, secrets, embedded Postgres"
    )
    config: Path | None = Field(
        default=None, description="settings file (TOML); none: DIR/thermocline.toml where it exists"
    )
    dsn: str | None = Field(
        default=None, repr=False, description="Postgres to use; none: the embedded one of the stack in DIR"
    )
    warehouse: str | None = Field(
        default=None,
        description="where the lake's files are made; none: as the database says, DIR/warehouse if it does not yet",
    )
    shared_files: bool = Field(
        default=False,
        description=(
            "whether other users of the machine may read warehouses, lake tables and logs whose directories are made "
            "from now on; needed where worker, Spark executors and gateway run as different users"
        ),
    )
    cache: Path | None = Field(
        default=None,
        description="directory of fetched jars and Postgres binaries; none: the system's or the user's cache",
    )
    gateway_listen: str = Field(
        default="127.0.0.1:5439", description="address of the gateway; a stack chooses a free port unless this is given"
    )
    gateway_addresses: str | None = Field(
        default=None,
        description=(
            "where Postgres finds the gateways, host:port,host:port,…, tried in order; none: as the database says, "
            "gateway_listen if it does not yet"
        ),
    )
    gateway_http_listen: str | None = Field(
        default=None,
        description=(
            "address where the gateway serves /healthz, /readyz and /metrics; none: a stack's own choice, else nowhere"
        ),
    )
    gateway_max_connections: int = Field(
        default=2000, ge=1, description="most client connections of the gateway, those that have not logged in included"
    )
    gateway_max_connections_per_address: int | None = Field(
        default=None,
        ge=1,
        description=(
            "most client connections of the gateway from one address (of IPv6: one /64 network); none: nine tenths of "
            "gateway_max_connections"
        ),
    )
    gateway_executors: int = Field(
        default=64,
        ge=1,
        le=1000,
        description="most processes that run gateway statements; a session with an unread result has one of its own",
    )
    gateway_memory_limit_bytes: int = Field(
        default=2_000_000_000,
        ge=100_000_000,
        description="memory that whole queries of the gateway share; scans may use a quarter of it in each executor",
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
        default=5, ge=0, description="statements that take at least this long are logged; 0: none"
    )
    gateway_drain_seconds: float = Field(
        default=10, ge=0, description="time that running statements get to end when the gateway stops"
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
        default=False, description="whether requests name the bucket in the path, not in the host name"
    )
    s3_credentials_file: Path | None = Field(
        default=None,
        description=(
            "keys of the object store in the form of the AWS tools; none: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
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
    reclaim_lag: str = Field(
        default="0",
        description=(
            "how long a tiered partition stays in the heap from its move on, for tables without their own; "
            "0: until no reader needs it"
        ),
    )
    fold_min_rows: int = Field(
        default=1000, ge=1, description="pending corrections from which on a worker folds at once"
    )
    fold_interval_seconds: float = Field(
        default=60, ge=0, description="longest time that fewer corrections stay pending"
    )
    cycle_late_seconds: float = Field(
        default=900, gt=0, description="time without a finished cycle after which the worker is reported as stuck"
    )
    corrections_late_seconds: float | None = Field(
        default=None,
        gt=0,
        description=(
            "how long corrections may stay pending before they are reported; none: 5 × fold_interval_seconds, "
            "300 at least"
        ),
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
        description="longest wait for a lock on the user's table; it is tried again later",
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
            "age at which folders of no table are deleted; metadata files that left the log stay a day at least"
        ),
    )
    target_file_bytes: int = Field(
        default=134_217_728, ge=1_048_576, description="target size of data files in the lake"
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
        default="spark", description="engine of a maintenance pass: spark, spark-procedures or external"
    )
    maintenance_external_command: str | None = Field(
        default=None,
        description=(
            "program of the engine external: reads a bin as JSON from stdin, writes its result as JSON to stdout"
        ),
    )
    maintenance_interval_seconds: float = Field(
        default=3600, gt=0, description="time between two maintenance passes of a table, jittered"
    )
    lake_stats_interval_seconds: float = Field(
        default=60, gt=0, description="time between two readings of the lake's health"
    )
    rewrite_target_bytes: int | None = Field(
        default=None, ge=1, description="policy default: target size of compacted files"
    )
    rewrite_min_input_files: int | None = Field(
        default=None, ge=2, description="policy default: fewest files that are compacted together"
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
        description="Prometheus server that runs a policy's latency_query; none: the gateway's own latency",
    )
    connect_timeout_seconds: int = Field(
        default=5, ge=1, le=300, description="longest wait for a connection to Postgres"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="form of log lines on stderr")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe log line shown"
    )

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
            hint = render_nearest(name, MAINTENANCE_ENGINES).removesuffix(".")
            raise ValueError(f"unknown {PREFIX}MAINTENANCE_ENGINE {name!r}; {hint[:1].lower()}{hint[1:]}")
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
    def given_warehouse(self) -> str | None:
        """The warehouse, if it was set; the one that a stack recorded does not count."""
        return self.warehouse if "warehouse" in self.model_fields_set else None

    @property
    def given_gateway(self) -> str | None:
        """Where Postgres finds the gateways, if this was set; an address of every interface is only for listening."""
        if self.gateway_addresses is not None:
            return self.gateway_addresses
        if "gateway_listen" not in self.model_fields_set or split_address(self.gateway_listen)[0] in EVERY_INTERFACE:
            return None
        return self.gateway_listen

    @property
    def gateway_hosts_and_ports(self) -> tuple[str, str]:
        """As set, each a list in libpq's form: for a database that has no address of its gateways yet."""
        return split_addresses(self.gateway_addresses or self.gateway_listen)

    @property
    def warehouse_location(self) -> str:
        """As set, else DIR/warehouse: for a database that has no warehouse yet."""
        return self.warehouse if self.warehouse is not None else str(self.dir / "warehouse")


def split_address(text: str) -> tuple[str, int]:
    """host:port, as two values."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("an address is written host:port")
    return host.strip("[]"), int(port)


def split_addresses(text: str) -> tuple[str, str]:
    """host:port,host:port,… as libpq's two lists."""
    pairs = [split_address(address.strip()) for address in text.split(",")]
    return ",".join(host for host, _ in pairs), ",".join(str(port) for _, port in pairs)
