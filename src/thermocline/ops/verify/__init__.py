"""The `verify` command and the background verifier."""
