"""A pass: the operations of lake maintenance over one table, one module each."""
