"""The `tier` command and the tiering cycle."""
