"""Maintenance of lake tables."""
