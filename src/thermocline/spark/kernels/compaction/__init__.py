"""Rewriting the files of one bin: splice, re-encode, sort, z-order."""
