"""Files made of copied bytes: splice and merge."""
