"""The operations of a maintenance pass."""
