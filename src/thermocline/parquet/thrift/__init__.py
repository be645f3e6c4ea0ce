"""Thrift's compact protocol, as Parquet footers use it."""
