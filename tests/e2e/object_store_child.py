"""Registers, tiers, corrects and folds `public.events` on an object store, in a process with a Spark of its own.

Its Spark needs one more jar than the run's, and jars are fixed when a process starts Spark.
"""

from __future__ import annotations

import sys

from thermocline.core.names import parse_table_name
from thermocline.ops.fold import fold
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

CORRECTIONS = (
    "update events set v = v + 1000 where id between 10 and 20",
    "delete from events where id = 30",
    "insert into events (id, ts, v) values (9001, '2026-01-05 00:00+00', 1)",
)


def main(dsn: str, gateway: str, warehouse: str) -> None:
    settings = Settings(
        dsn=dsn, warehouse=warehouse, gateway_listen=gateway, spark_master="local[2]", lock_timeout_ms=1000
    )
    name = parse_table_name("public.events")
    spark = lazy_spark_session(dsn, settings)
    register(dsn, RegisterRequest(table=name, premake=0), settings=settings)
    tier(dsn, name, settings=settings, spark=spark)
    with connect(dsn, autocommit=True) as conn:
        for path in ("public_all, public", "twin"):
            conn.execute("select set_config('search_path', %s, false)", [path])
            for statement in CORRECTIONS:
                conn.execute(statement.encode())
    fold(dsn, name, settings=settings, spark=spark)
    spark().stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
