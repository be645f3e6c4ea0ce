"""The formats of lake tables: what the program asks of one, Iceberg, and those that installed packages offer."""
