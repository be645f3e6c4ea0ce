"""Metadata, manifests and scans."""
