"""Kernels that copy encoded bytes: splice copies row groups, merge copies pages."""
