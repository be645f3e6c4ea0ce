"""SQL as the gateway reads and compiles it."""
