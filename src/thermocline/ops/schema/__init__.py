"""Following the heap's columns and owner."""
