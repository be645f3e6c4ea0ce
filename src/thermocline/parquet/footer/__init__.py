"""Parquet footers: read, compared, rendered."""
