"""Column values: Arrow types, transforms, checksums, partition values."""
