"""Rows decoded and encoded: readers, writers, schemas."""
