"""Every point where a protocol may be killed, by protocol. `test_every_point.py` holds these against the points in the
program."""

from __future__ import annotations

import os

ALL = bool(os.environ.get("THERMOCLINE_TEST_ALL_FAULTS"))
"""`make faults`: also in a Spark that dies with its driver, and every way to a point."""

TIER = ("line-raised", "sealed", "intent", "copied", "written", "committed", "committed-noted", "published", "dropped")
RESOLVE = ("resolve-settled",)
PREMAKE = ("premade",)
FOLD = ("fold-intent", "fold-written", "fold-committed", "fold-committed-noted", "fold-published", "fold-purged")
MAINTENANCE = (
    "compact-bin",
    "compact-bins-written",
    "compact-intent",
    "compact-written",
    "compact-committed",
    "compact-committed-noted",
    "compact-published",
    "rewrite_manifests-intent",
    "rewrite_manifests-written",
    "rewrite_manifests-committed",
    "rewrite_manifests-committed-noted",
    "rewrite_manifests-published",
    "expire-noted",
    "expire-committed",
    "orphans-listed",
    "orphans-saved",
)
RETAIN = (
    "retain-line-raised",
    "retain-intent",
    "retain-written",
    "retain-committed",
    "retain-committed-noted",
    "retain-published",
)
REGISTER = ("register-begun", "register-file-written", "register-applied", "register-committed")
UNREGISTER = (
    "restore-filled",
    "unregister-forgotten",
    "unregister-restored",
    "unregister-committed",
    "unregister-files-removed",
)
SCHEMA = ("schema-followed", "schema-written", "schema-swapped")

EVERY = frozenset((*TIER, *RESOLVE, *PREMAKE, *FOLD, *MAINTENANCE, *RETAIN, *REGISTER, *UNREGISTER, *SCHEMA))
