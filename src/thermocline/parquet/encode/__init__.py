"""Encode rows as Parquet files: the writer of tiering and folding, the writer of rewrites."""
