"""Read metadata, manifests and scans."""
