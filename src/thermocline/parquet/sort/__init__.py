"""Sorting a bin in bounded memory."""
