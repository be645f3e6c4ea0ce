"""Files of a table in its store: listed, compared, deleted."""
