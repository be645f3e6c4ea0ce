"""Values of columns: Arrow types, checksums, partition values."""
