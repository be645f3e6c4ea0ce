"""Iceberg catalogs: one interface (`base`), one module for each kind (`jdbc`), one place that chooses
(`current_catalog`)."""
