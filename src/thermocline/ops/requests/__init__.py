"""Requests to a running worker."""
