"""The command line: a thin shell over the verbs in `ops` and the stack."""
