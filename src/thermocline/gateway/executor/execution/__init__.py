"""What runs in an executor: DuckDB, reads of Postgres by ADBC, and the encoding of rows."""
