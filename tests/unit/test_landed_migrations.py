"""A landed migration never changes, and the files of the catalog are named after what they hold."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from thermocline.catalog.migrate import read_migrations
from thermocline.catalog.reference_tables import REFERENCE_TABLES, ReferenceTable
from thermocline.catalog.schema_objects import read_object_files

FOLDER = resources.files("thermocline.catalog").joinpath("tables")


def test_a_landed_migration_is_never_edited_and_a_new_one_lands_with_its_checksum() -> None:
    """`cd src/thermocline/catalog/tables && sha256sum NNNN_name.sql >> checksums.txt` adds a new one."""
    landed = [line.split("  ") for line in FOLDER.joinpath("checksums.txt").read_text("utf-8").splitlines()]
    carried = [[m.sha256, f"{m.version:04}_{m.name}.sql"] for m in read_migrations()]
    assert landed == carried


def test_a_file_holds_the_object_it_is_named_after_and_no_other() -> None:
    made = r"^ *create (?:or replace )?(?:function|view|trigger|event trigger) (?:thermocline\.)?(\w+)"
    named = [(file.name, set(re.findall(made, file.text, re.MULTILINE))) for file in read_object_files()]
    assert [(name, found) for name, found in named if found != {name.rpartition(".")[2]}] == []


def test_a_file_can_be_applied_while_its_object_is_in_use() -> None:
    # ENABLE ALWAYS takes the lock that CREATE OR REPLACE TRIGGER has taken before it.
    refused = r"^(?:create (?!or replace)|drop|alter (?!table [\w.]+ enable always trigger)|insert|update|delete)\b.*"
    assert [re.findall(refused, file.text, re.MULTILINE) for file in read_object_files()] == [[]] * len(
        read_object_files()
    )


def test_an_object_comes_after_those_it_refers_to() -> None:
    order = [file.name for file in read_object_files()]
    assert order.index("spanning") < order.index("spanning_table") < len(order)
    assert order.index("is_original_database") < order.index("tables_here")
    kinds = [file.kind for file in read_object_files()]
    assert kinds == sorted(kinds, key="triggers".__eq__)
    assert "." not in order[-1]


@pytest.mark.parametrize("table", REFERENCE_TABLES, ids=lambda table: str(table.name))
def test_the_rows_of_a_reference_table_name_the_same_columns_and_differ_in_their_key(table: ReferenceTable) -> None:
    assert len({tuple(row) for row in table.rows}) == 1
    assert len({tuple(row[column] for column in table.key) for row in table.rows}) == len(table.rows)
