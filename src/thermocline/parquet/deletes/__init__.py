"""Position deletes, equality deletes, deletion vectors."""
