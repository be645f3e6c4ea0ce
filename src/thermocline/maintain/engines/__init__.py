"""Who runs the operations of a pass."""
