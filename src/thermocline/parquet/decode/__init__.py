"""Read rows of Parquet files into the table's schema, deletes applied."""
