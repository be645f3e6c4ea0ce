"""The maintenance policy: its keys, layers and values."""
