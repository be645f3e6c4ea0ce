"""Commands that read only: advise, explain, overview."""
