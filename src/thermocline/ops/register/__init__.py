"""The `register` and `unregister` commands."""
