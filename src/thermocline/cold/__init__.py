"""The Iceberg table, read side: metadata, manifests and scan plans."""
