"""Parquet files as bytes and Arrow: no Spark, no Postgres."""
